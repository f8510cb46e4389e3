// node-rdkafka (librdkafka) as its users use it. What it cannot do at all is in LACKS.
"use strict";
const Kafka = require("node-rdkafka");
const { env, FIRST_MS, say, sleep, numbers, until, equal, rejected, play, routedRecords, ROUTED } = require("../kafkajs/stage.js");

const ADMIN = "its admin client creates, grows and deletes topics only";
const LACKS = {
  "assignor-sticky": "librdkafka has no eager sticky assignor",
  configs: ADMIN,
  groups: ADMIN,
  "group-offsets": ADMIN,
  "list-offsets": ADMIN,
  "delete-records": ADMIN,
  "log-dirs": ADMIN,
  "transactions-admin": ADMIN,
  scram: ADMIN,
  quotas: ADMIN,
  reassign: ADMIN,
  elect: ADMIN,
  acls: ADMIN,
  streams: "Java only",
  "streams-group": "Java only",
  "share-letters": "node-rdkafka has no share consumer",
  ...(Kafka.features.includes("zstd") ? {} : { zstd: "its librdkafka was built without libzstd on this machine" }),
};
const { ERRORS } = Kafka.CODES;
const plain = { "metadata.broker.list": env.SCENE_BOOTSTRAP };
const tls = { "security.protocol": "SASL_SSL", "metadata.broker.list": env.SCENE_SECURED, "ssl.ca.location": env.SCENE_CA };
const secured = (password) => ({ ...tls, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": password });
const bearer = (token) => ({ ...tls, "sasl.mechanisms": "OAUTHBEARER", token });
const certified = (user) => {
  const pem = env[`SCENE_${user.toUpperCase()}`];
  return {
    ...tls, "security.protocol": "SSL", "metadata.broker.list": env.SCENE_MUTUAL, "ssl.certificate.location": pem, "ssl.key.location": pem,
  };
};

/** The callback of a call as a promise. */
const call = (object, method, ...given) =>
  new Promise((resolve, reject) => object[method](...given, (error, value) => (error ? reject(error) : resolve(value))));

/** A client; `token` is not a setting of librdkafka's, but given before it connects. */
function client(Kind, { token, ...settings }, ...more) {
  const made = new Kind(settings, ...more);
  if (token) made.setOauthBearerToken(token);
  return made;
}

async function connected(client) {
  await call(client, "connect", {});
  return client;
}

async function producer(settings = {}, onReport = () => undefined) {
  const made = await connected(client(Kafka.Producer, { ...plain, dr_msg_cb: true, ...settings }));
  made.reports = [];
  made.setPollInterval(20);
  made.on("delivery-report", (error, report) => {
    made.reports.push(error);
    onReport(error, report);
  });
  return made;
}

async function send(made, topic, values) {
  const wanted = made.reports.length + values.length;
  for (const value of values) made.produce(topic, 0, value === null ? null : Buffer.from(value));
  await until(() => made.reports.length >= wanted, "the reports");
  const failed = made.reports.find((e) => e);
  if (failed) throw failed;
}

async function produced(topic, values, settings) {
  const made = await producer(settings);
  await send(made, topic, values);
  await call(made, "disconnect");
}

async function consumer(settings, topics = [], more = { "auto.offset.reset": "earliest" }) {
  const made = await connected(client(Kafka.KafkaConsumer, { ...plain, "enable.auto.commit": false, ...settings }, more));
  made.setDefaultConsumeTimeout(200);
  if (topics.length) made.subscribe(topics);
  return made;
}

async function some(reader, count) {
  const out = [];
  await until(async () => (out.push(...(await call(reader, "consume", count - out.length))), out.length === count), `${count} records`);
  return out;
}

const texts = (messages) => messages.map((m) => m.value.toString());

/** `count` messages of partition 0 from its start, and no more than that within a moment. */
async function read(topic, count, isolation = "read_uncommitted") {
  const reader = await consumer({ "group.id": "none", "isolation.level": isolation });
  reader.assign([{ topic, partition: 0, offset: 0 }]);
  const out = await some(reader, count);
  equal(await call(reader, "consume", 1), []);
  await call(reader, "disconnect");
  return out;
}

async function comeAndGo(topic, clientOptions) {
  await produced(topic, numbers(100), clientOptions);
  const reader = await consumer({ ...clientOptions, "group.id": topic }, [topic]);
  equal(texts(await some(reader, 100)), numbers(100));
  await call(reader, "disconnect");
}

/** Events come when they are polled for. setPollInterval() begins at `ready`, which a rejected client never reaches: poll explicitly from the start. */
async function turnedAway(clientOptions) {
  const made = client(Kafka.Producer, clientOptions);
  const errors = [];
  made.on("event.error", (error) => errors.push(error.code));
  made.connect({ timeout: 10000 }, (error) => error && errors.push(error.code));
  const polling = setInterval(() => made.isConnected() && made.poll(), 20);
  await until(() => errors.includes(ERRORS.ERR__AUTHENTICATION), "an authentication error");
  clearInterval(polling);
}

const acks = (wanted) => async (topic) => {
  await produced(topic, numbers(100), { "request.required.acks": wanted });
  equal(texts(await read(topic, 100)), numbers(100));
};

const codec = (kind) => async (topic) => {
  const wanted = numbers(500).map((v) => v.repeat(20));
  await produced(topic, wanted, { "compression.codec": kind, "linger.ms": 50 });
  equal(texts(await read(topic, 500)), wanted);
};

/** A member of a group; `seen` are the values it was brought, `lost` the partitions it gave up. */
class Member {
  constructor(settings) {
    this.seen = new Set();
    this.lost = [];
    this.settings = settings;
  }

  async join(group, topic) {
    const onRebalance = (error, parts) => error.code === ERRORS.ERR__REVOKE_PARTITIONS && this.lost.push(...parts.map((p) => p.partition));
    this.consumer = await consumer({ "group.id": group, rebalance_cb: true, ...this.settings }, [topic]);
    this.consumer.on("rebalance", onRebalance);
    return this;
  }

  async owned() {
    for (const m of await call(this.consumer, "consume", 100)) this.seen.add(m.value.toString());
    return this.consumer.assignments().map((p) => p.partition).sort();
  }

  leave() {
    return call(this.consumer, "disconnect");
  }
}

const join = (topic, settings = {}) => new Member(settings).join(topic, topic);
const halves = (one, two) => async () => (await one.owned()).length === 2 && (await two.owned()).length === 2;
const whole = (one) => async () => (await one.owned()).length === 4;

const members = (settings, cooperative = false) => async (topic) => {
  const one = await join(topic, settings);
  await until(whole(one), "one member to own all");
  const two = await join(topic, settings);
  await until(halves(one, two), "two members to share");
  equal([...(await one.owned()), ...(await two.owned())].sort(), [0, 1, 2, 3]);
  if (cooperative) equal((await one.owned()).filter((p) => one.lost.includes(p)), []);
  await until(async () => (await one.owned(), await two.owned(), new Set([...one.seen, ...two.seen]).size === 400), "all records");
  await two.leave();
  await until(whole(one), "the one that stayed to own all again");
  await one.leave();
};

/** Each record is acknowledged before the next one is sent: a decision needs a message that is stored. */
async function through(front, written) {
  const made = await producer();
  for (const [index, [key, value, headers]] of written.entries()) {
    made.produce(front, 0, value === null ? null : Buffer.from(value), Buffer.from(key), null, null, Object.entries(headers).map(([k, v]) => ({ [k]: v })));
    await until(() => made.reports.length > index, "the report");
  }
  equal(made.reports.filter((e) => e).length, 0);
  await call(made, "disconnect");
}

async function transactional(id) {
  const made = await producer({ "transactional.id": id });
  await call(made, "initTransactions", 60000);
  return made;
}

const features = {
  "acks-0": acks(0),
  "acks-1": acks(1),
  "acks-all": acks(-1),
  gzip: codec("gzip"),
  snappy: codec("snappy"),
  lz4: codec("lz4"),
  zstd: codec("zstd"),
  group: members({}),
  "assignor-range": members({ "partition.assignment.strategy": "range" }),
  "assignor-roundrobin": members({ "partition.assignment.strategy": "roundrobin" }),
  "assignor-cooperative": members({ "partition.assignment.strategy": "cooperative-sticky" }, true),
  "new-protocol": members({ "group.protocol": "consumer" }),

  async headers(topic) {
    const made = await producer();
    made.produce(topic, 0, Buffer.from("v"), null, null, null, [{ a: "1" }, { a: "2" }, { empty: "" }]);
    await until(() => made.reports.length, "the report");
    await call(made, "disconnect");
    const found = (await read(topic, 1))[0].headers.map((h) => Object.entries(h).map(([k, v]) => `${k}=${v}`)[0]);
    equal(found, ["a=1", "a=2", "empty="]);
  },

  async delayed(topic) {
    const began = Date.now();
    const at = (ms) => ({ "x-deliver-at-ms": String(began + ms) });
    await through(`${topic}.delay`, [
      ["a", "third", at(6_000)],
      ["b", "cancelled", at(5_500)],
      ["c", "second", { "x-delay-ms": "3000" }],
      ["d", "first", { "x-delay-ms": "0" }],
      ["b", null, {}],
    ]);
    equal(texts(await read(topic, 3)), ["first", "second", "third"]);
    equal(Date.now() - began >= 6_000, true);
  },

  async half(topic) {
    const halves = ["1", "2", "3"].map((id) => ["k", `order ${id}`, { "x-half-id": id }]);
    const decisions = [["3", "commit"], ["2", "rollback"], ["1", "commit"]];
    await through(`${topic}.half`, [...halves, ...decisions.map(([id, decision]) => ["k", null, { "x-half-id": id, "x-half": decision }])]);
    equal(texts(await read(topic, 2)), ["order 3", "order 1"]);
  },

  async routes(topic) {
    const written = routedRecords();
    await through(topic, written);
    for (const [suffix, matching] of Object.entries(ROUTED)) {
      const found = (await read(topic + suffix, matching.length)).map((m) => [
        m.key.toString(), m.value.toString(), Object.fromEntries(m.headers.flatMap((h) => Object.entries(h)).map(([k, v]) => [k, v.toString()])),
      ]);
      equal(found, matching.map((n) => written[n]));
    }
  },

  async nulls(topic) {
    const made = await producer();
    const wanted = [[null, "v"], ["k", null]]; // an empty value is read as null
    for (const [key, value] of wanted) made.produce(topic, 0, value === null ? null : Buffer.from(value), key);
    await until(() => made.reports.length === 2, "the reports");
    await call(made, "disconnect");
    equal((await read(topic, 2)).map((m) => [m.key, m.value].map((x) => (x === null || x === undefined ? null : x.toString()))), wanted);
  },

  async big(topic) {
    const wanted = Buffer.from(Array.from({ length: 1_000_000 }, (_, i) => i % 251));
    await produced(topic, [wanted], { "message.max.bytes": 1_100_000 });
    equal(wanted.equals((await read(topic, 1))[0].value), true);
  },

  async "too-large"(topic) {
    const made = await producer();
    await rejected((e) => /message size too large/i.test(e.message), () => send(made, topic, ["x".repeat(500_000)]));
    made.reports.length = 0;
    await send(made, topic, ["small"]);
    await call(made, "disconnect");
    equal(texts(await read(topic, 1)), ["small"]);
  },

  idempotent: (topic) => produced(topic, numbers(500), { "enable.idempotence": true, "batch.num.messages": 10 }),

  async transactions(topic) {
    const made = await transactional(topic);
    for (const sent of [["a1", "a2"], ["b1"], ["c1"]]) {
      await call(made, "beginTransaction");
      await send(made, topic, sent);
      await call(made, sent[0] === "b1" ? "abortTransaction" : "commitTransaction", 60000);
    }
    await call(made, "disconnect");
    equal(texts(await read(topic, 3, "read_committed")), ["a1", "a2", "c1"]);
    equal(texts(await read(topic, 4)), ["a1", "a2", "b1", "c1"]);
  },

  async "transaction-offsets"(topic) {
    const reader = await consumer({ "group.id": topic }, [topic]);
    const wanted = texts(await some(reader, 100)).map((v) => `<${v}>`);
    const made = await transactional(topic);
    const turn = async (values, offset) => {
      await call(made, "beginTransaction");
      await send(made, topic + "-out", values);
      await call(made, "sendOffsetsToTransaction", [{ topic, partition: 0, offset }], reader, 60000);
    };
    const committed = async () => (await call(reader, "committed", [{ topic, partition: 0 }], 30000))[0].offset;
    await turn(numbers(50), 50);
    await call(made, "abortTransaction", 60000);
    equal((await committed()) === undefined || (await committed()) < 0, true);
    await turn(wanted, 100);
    await call(made, "commitTransaction", 60000);
    equal(await committed(), 100);
    await call(reader, "disconnect");
    equal(texts(await read(topic + "-out", 100, "read_committed")), wanted);
  },

  async fencing(topic) {
    const old = await transactional(topic);
    await call(old, "beginTransaction");
    await send(old, topic, ["old"]);
    const fresh = await transactional(topic);
    await rejected((e) => [ERRORS.ERR__FENCED, ERRORS.ERR_INVALID_PRODUCER_EPOCH, ERRORS.ERR_PRODUCER_FENCED].includes(e.code), () => call(old, "commitTransaction", 60000));
    await call(fresh, "beginTransaction");
    await send(fresh, topic, ["new"]);
    await call(fresh, "commitTransaction", 60000);
    equal(texts(await read(topic, 1, "read_committed")), ["new"]);
  },

  async "leader-killed"(topic) {
    const made = await producer({ "enable.idempotence": true, "linger.ms": 0 }, (error, report) => error || say(`acked ${report.value}`));
    for (const value of numbers(600)) {
      made.produce(topic, 0, Buffer.from(value));
      await sleep(5);
    }
    await until(() => made.reports.length === 600, "the reports");
    equal(made.reports.filter((e) => e).length, 0);
    await call(made, "disconnect");
  },

  async "majority-acks"(topic) {
    await features["leader-killed"](topic);
    equal(texts(await read(topic, 600)), numbers(600));
  },

  async "from-start"(topic) {
    equal(texts(await read(topic, 3000)).map((v) => v.replace(/\.+$/, "")), numbers(3000));
  },

  async static(topic) {
    const named = (id) => ({ "group.instance.id": id, "session.timeout.ms": 30000 });
    const one = await join(topic, named("one"));
    await until(whole(one), "one member to own all");
    let two = await join(topic, named("two"));
    await until(halves(one, two), "two members to share");
    const had = await two.owned();
    one.lost = [];
    await two.leave();
    two = await join(topic, named("two"));
    await until(async () => (await one.owned(), String(await two.owned()) === String(had)), "the second member to have its partitions again");
    equal(one.lost, []);
    await one.leave();
    await two.leave();
  },

  async commits(topic) {
    const first = await consumer({ "group.id": topic }, [topic]);
    await some(first, 40);
    first.commitSync([{ topic, partition: 0, offset: 40, metadata: "a note" }]);
    await call(first, "disconnect");
    const second = await consumer({ "group.id": topic }, [topic]);
    equal((await call(second, "committed", [{ topic, partition: 0 }], 30000))[0].offset, 40);
    equal(texts(await some(second, 1)), ["40"]);
    await call(second, "disconnect");
  },

  async resets(topic) {
    const earliest = await consumer({ "group.id": topic + "-e" }, [topic]);
    equal(texts(await some(earliest, 1)), ["0"]);
    await call(earliest, "seek", { topic, partition: 0, offset: 10000 }, 10000);
    equal(texts(await some(earliest, 1)), ["0"]);
    await call(earliest, "disconnect");
    const none = await consumer({ "group.id": topic + "-n" }, [topic], { "auto.offset.reset": "error" });
    await rejected((e) => e.code === ERRORS.ERR__AUTO_OFFSET_RESET, () => some(none, 1));
    await call(none, "disconnect");
    const latest = await consumer({ "group.id": topic + "-l" }, [topic], { "auto.offset.reset": "latest" });
    const found = [];
    await until(async () => (await produced(topic, ["new"]), found.push(...(await call(latest, "consume", 1))), found.length), "a record that is new");
    equal(texts(found)[0], "new");
    await call(latest, "disconnect");
  },

  async timestamps(topic) {
    const reader = await consumer({ "group.id": topic });
    const at = async (ms) => (await call(reader, "offsetsForTimes", [{ topic, partition: 0, offset: ms }], 30000))[0].offset;
    equal(await at(FIRST_MS + 49_500), 50);
    equal((await at(FIRST_MS + 1_000_000)) >= 0, false);
    reader.assign([{ topic, partition: 0, offset: await at(FIRST_MS + 50_000) }]);
    equal(texts(await some(reader, 1)), ["50"]);
    await call(reader, "disconnect");
  },

  async pause(topic) {
    const reader = await consumer({ "group.id": topic });
    reader.assign([{ topic, partition: 0, offset: 0 }, { topic, partition: 1, offset: 0 }]);
    reader.pause([{ topic, partition: 0 }]);
    equal(new Set((await some(reader, 100)).map((m) => m.partition)), new Set([1]));
    await sleep(1500);
    equal(await call(reader, "consume", 1), []);
    reader.resume([{ topic, partition: 0 }]);
    equal(new Set((await some(reader, 100)).map((m) => m.partition)), new Set([0]));
    await call(reader, "disconnect");
  },

  async pattern(topic) {
    const reader = await consumer({ "group.id": topic }, [new RegExp(`^${topic.replaceAll(".", "\\.")}.*`)]);
    equal(new Set((await some(reader, 100)).map((m) => m.topic)), new Set([topic, topic + "-two"]));
    await call(reader, "disconnect");
  },

  async topics(topic) {
    const admin = Kafka.AdminClient.create(plain);
    const asking = await producer();
    const found = async () => (await call(asking, "getMetadata", { timeout: 10000 })).topics.find((t) => t.name === topic);
    const wanted = { topic, num_partitions: 2, replication_factor: 3, config: { "retention.ms": "3600000" } };
    await call(admin, "createTopic", wanted, 30000);
    await rejected((e) => e.code === ERRORS.ERR_TOPIC_ALREADY_EXISTS, () => call(admin, "createTopic", wanted, 30000));
    await until(found, "the topic to be listed");
    equal((await found()).partitions.map((p) => p.replicas.length), [3, 3]);
    await call(admin, "createPartitions", topic, 5, 30000);
    await until(async () => (await found()).partitions.length === 5, "five partitions");
    await call(admin, "deleteTopic", topic, 30000);
    await until(async () => !(await found()), "the topic to go");
    await call(asking, "disconnect");
    admin.disconnect();
  },

  async cluster() {
    const asking = await producer();
    equal((await call(asking, "getMetadata", { timeout: 10000 })).brokers.map((b) => b.id).sort(), [1, 2, 3]);
    await call(asking, "disconnect");
  },

  "scram-tls": (topic) => comeAndGo(topic, secured(env.SCENE_PASSWORD)),
  "wrong-password": () => turnedAway(secured("wrong")),

  async oauth(topic) {
    await comeAndGo(topic, bearer(env.SCENE_TOKEN));
    await turnedAway(bearer(env.SCENE_FORGED));
  },

  async "mutual-tls"(topic) {
    await comeAndGo(topic, certified("alice"));
    await rejected((e) => /authorization failed/i.test(e.message), () => produced(topic, ["no"], certified("bob")));
  },
};

play(features, LACKS);
