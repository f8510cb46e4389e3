// What the programs in JavaScript share: one feature after the other, with one output line each (tests/foreign/stage.py says how).
"use strict";
const assert = require("node:assert/strict");
const env = process.env;
const FIRST_MS = 1_700_000_000_000;
const SECONDS_MAX = 60;

const say = (line) => process.stdout.write(line + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const numbers = (n) => Array.from({ length: n }, (_, i) => String(i));

async function until(condition, what) {
  const deadline = Date.now() + SECONDS_MAX * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited ${SECONDS_MAX} s for ${what}`);
    await sleep(20);
  }
}

function equal(found, wanted) {
  assert.deepEqual(found, wanted);
}

/** That it is rejected with this error: a test of the error. */
async function rejected(test, call) {
  try {
    await call();
  } catch (error) {
    if (test(error)) return;
    throw error;
  }
  throw new Error("not rejected");
}

/** [key, value, headers] for the source of the route. `ROUTED` are the numbers of the records that each target gets. */
const routedRecords = () =>
  Array.from({ length: 12 }, (_, n) => [["paid", "eu.berlin", "us"][n % 3], `v${n}`, { fraud: n % 2 === 0 ? "yes" : "no", n: String(n) }]);
const ROUTED = { "-key": [0, 3, 6, 9], "-pattern": [1, 4, 7, 10], "-headers": [0, 2, 4, 6, 8, 10] };

async function play(features, lacks) {
  process.on("unhandledRejection", (error) => console.error("unhandled", error));
  for (const name of process.argv.slice(2)) {
    say(`begin ${name}`);
    if (name in lacks) {
      say(`none ${name} ${lacks[name]}`);
      continue;
    }
    try {
      await features[name](env.SCENE_PREFIX + name);
      say(`yes ${name}`);
    } catch (error) {
      console.error(error);
      say(`no ${name} ${String(error).replace(/\s+/g, " ").slice(0, 300)}`);
    }
  }
  process.stdout.write("", () => process.exit(0));
}

module.exports = { env, FIRST_MS, say, sleep, numbers, until, equal, rejected, play, routedRecords, ROUTED };
