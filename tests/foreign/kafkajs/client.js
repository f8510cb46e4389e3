// kafkajs as its users use it. What it cannot do at all is in LACKS.
"use strict";
const fs = require("node:fs");
const { Kafka, logLevel, CompressionTypes, CompressionCodecs, ConfigResourceTypes, AclResourceTypes, AclOperationTypes, AclPermissionTypes, ResourcePatternTypes } = require("kafkajs");
const lz4 = require("lz4js");
const snappy = require("kafkajs-snappy");
const { ZstdCodec } = require("zstd-codec");
const { env, FIRST_MS, say, sleep, numbers, until, equal, rejected, play, routedRecords, ROUTED } = require("./stage.js");

const LACKS = {
  "assignor-range": "round robin only; others are the user's to write",
  "assignor-roundrobin": "its only one: see the group",
  "assignor-sticky": "round robin only",
  "assignor-cooperative": "no incremental rebalance",
  static: "no static membership",
  "new-protocol": "classic groups only",
  "log-dirs": "no such call",
  "transactions-admin": "no such call",
  scram: "no such call",
  quotas: "no such call",
  elect: "no such call",
  "share-letters": "no share groups",
  streams: "Java only",
  "streams-group": "Java only",
};

// Codecs other than gzip are plug-ins: kafkajs-snappy, and these two.
CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
const zstd = new Promise((resolve) => ZstdCodec.run((made) => resolve(new made.Simple())));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer, 3)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
});

const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: 60 };
const plain = new Kafka({ brokers: env.SCENE_BOOTSTRAP.split(","), logLevel: logLevel.NOTHING, retry });
const clientOptions = (brokers, ssl, sasl) =>
  new Kafka({
    brokers: brokers.split(","), logLevel: logLevel.NOTHING, retry: { ...retry, retries: 3 },
    ssl: { ca: [fs.readFileSync(env.SCENE_CA, "utf8")], ...ssl }, ...(sasl && { sasl }),
  });
const secured = (username, password) => clientOptions(env.SCENE_SECURED, {}, { mechanism: "scram-sha-512", username, password });
const bearer = (value) => clientOptions(env.SCENE_SECURED, {}, { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value }) });
const certified = (user) => {
  const pem = fs.readFileSync(env[`SCENE_${user.toUpperCase()}`], "utf8");
  return clientOptions(env.SCENE_MUTUAL, { key: pem, cert: pem });
};

async function producing(settings, use, kafka = plain) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...settings });
  await producer.connect();
  try {
    return await use(producer);
  } finally {
    await producer.disconnect();
  }
}

async function administering(use) {
  const admin = plain.admin();
  await admin.connect();
  try {
    return await use(admin);
  } finally {
    await admin.disconnect();
  }
}

const messages = (values) => values.map((value) => ({ value, partition: 0 }));
const send = (producer, topic, values, more = {}) => producer.send({ topic, messages: messages(values), ...more });

/** A member of a group, running; `seen` are the messages it was brought. */
async function member(groupId, topic, { fromBeginning = true, kafka = plain, onMessage, ...settings } = {}) {
  const consumer = kafka.consumer({ groupId, rebalanceTimeout: 10000, maxWaitTimeInMs: 200, ...settings });
  const out = { consumer, seen: [], owned: [], crashed: null };
  consumer.on(consumer.events.GROUP_JOIN, (event) => (out.owned = [...(event.payload.memberAssignment[topic] ?? [])].sort()));
  consumer.on(consumer.events.CRASH, (event) => (out.crashed = event.payload.error));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic: from, partition, message }) => {
      out.seen.push({ topic: from, partition, ...message });
      if (onMessage) await onMessage(out);
    },
  });
  return out;
}

const texts = (seen) => seen.map((m) => m.value.toString());
let groups = 0;

/** `count` messages of the topic from its start, and no more than that within a moment. */
async function read(topic, count, readUncommitted = true) {
  const reader = await member(`${topic}-reader-${++groups}`, topic, { readUncommitted });
  await until(() => reader.seen.length >= count, `${count} records, has ${reader.seen.length}`);
  await sleep(300);
  await reader.consumer.disconnect();
  equal(reader.seen.length, count);
  return reader.seen;
}

// Each record is acknowledged before the next one is sent: a decision needs a message that is stored.
async function through(front, written) {
  await producing({}, async (producer) => {
    for (const [key, value, headers] of written) {
      await producer.send({ topic: front, acks: -1, messages: [{ key, value, headers, partition: 0 }] });
    }
  });
}

async function comeAndGo(topic, kafka) {
  await producing({}, (producer) => send(producer, topic, numbers(100)), kafka);
  const reader = await member(topic, topic, { kafka });
  await until(() => reader.seen.length === 100, "100 records");
  equal(texts(reader.seen), numbers(100));
  await reader.consumer.disconnect();
}

const turnedAway = (kafka) => rejected((e) => /Authentication/.test(`${e.name} ${e.cause?.name}`), () => producing({}, () => undefined, kafka));
const mayNot = (producer, topic) => rejected((e) => /TOPIC_AUTHORIZATION_FAILED/.test(`${e.type} ${e.cause?.type}`), () => send(producer, topic, ["no"]));

const acks = (wanted) => async (topic) => {
  await producing({}, (producer) => send(producer, topic, numbers(100), { acks: wanted }));
  equal(texts(await read(topic, 100)), numbers(100));
};

const codec = (compression) => async (topic) => {
  const wanted = numbers(500).map((v) => v.repeat(20));
  await producing({}, (producer) => send(producer, topic, wanted, { compression }));
  equal(texts(await read(topic, 500)), wanted);
};

async function transactional(id) {
  const producer = plain.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  return producer;
}

async function group(topic) {
  const one = await member(topic, topic);
  await until(() => one.owned.length === 4, "one member to own all");
  const two = await member(topic, topic);
  await until(() => one.owned.length === 2 && two.owned.length === 2, "two members to share");
  equal([...one.owned, ...two.owned].sort(), [0, 1, 2, 3]);
  await until(() => new Set(texts([...one.seen, ...two.seen])).size === 400, "all records");
  await two.consumer.disconnect();
  await until(() => one.owned.length === 4, "the one that stayed to own all again");
  await one.consumer.disconnect();
}

const features = {
  "acks-0": acks(0),
  "acks-1": acks(1),
  "acks-all": acks(-1),
  gzip: codec(CompressionTypes.GZIP),
  snappy: codec(CompressionTypes.Snappy),
  lz4: codec(CompressionTypes.LZ4),
  zstd: codec(CompressionTypes.ZSTD),
  group,

  async headers(topic) {
    const wanted = { a: ["1", "2"], empty: "" };
    await producing({}, (producer) => producer.send({ topic, messages: [{ value: "v", headers: wanted }] }));
    const { headers } = (await read(topic, 1))[0];
    equal({ a: headers.a.map(String), empty: String(headers.empty) }, wanted);
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
        m.key.toString(), m.value.toString(), Object.fromEntries(Object.entries(m.headers).map(([k, v]) => [k, v.toString()])),
      ]);
      equal(found, matching.map((n) => written[n]));
    }
  },

  async nulls(topic) {
    const wanted = [[null, "v"], ["k", null], ["", ""]];
    await producing({}, (producer) => producer.send({ topic, messages: wanted.map(([key, value]) => ({ key, value, partition: 0 })) }));
    const found = (await read(topic, 3)).map((m) => [m.key, m.value].map((x) => (x === null ? null : x.toString())));
    equal(found, wanted);
  },

  async big(topic) {
    const wanted = Buffer.from(Array.from({ length: 1_000_000 }, (_, i) => i % 251));
    await producing({}, (producer) => producer.send({ topic, messages: [{ value: wanted }] }));
    equal(wanted.equals((await read(topic, 1))[0].value), true);
  },

  async "too-large"(topic) {
    await producing({}, async (producer) => {
      await rejected((e) => e.type === "MESSAGE_TOO_LARGE", () => send(producer, topic, ["x".repeat(500_000)]));
      await send(producer, topic, ["small"]);
    });
    equal(texts(await read(topic, 1)), ["small"]);
  },

  async idempotent(topic) {
    await producing({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
      for (let i = 0; i < 500; i += 10) await send(producer, topic, numbers(500).slice(i, i + 10));
    });
  },

  async transactions(topic) {
    const producer = await transactional(topic);
    for (const sent of [["a1", "a2"], ["b1"], ["c1"]]) {
      const transaction = await producer.transaction();
      await send(transaction, topic, sent);
      await (sent[0] === "b1" ? transaction.abort() : transaction.commit());
    }
    await producer.disconnect();
    equal(texts(await read(topic, 3, false)), ["a1", "a2", "c1"]);
    equal(texts(await read(topic, 4, true)), ["a1", "a2", "b1", "c1"]);
  },

  async "transaction-offsets"(topic) {
    const reader = await member(topic, topic);
    await until(() => reader.seen.length === 100, "100 records");
    await reader.consumer.disconnect();
    const producer = await transactional(topic);
    const turn = async (values, offset) => {
      const transaction = await producer.transaction();
      await send(transaction, topic + "-out", values);
      await transaction.sendOffsets({ consumerGroupId: topic, topics: [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }] });
      return transaction;
    };
    const committed = () => administering(async (admin) => (await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions[0].offset);
    await (await turn(numbers(50), 50)).abort();
    equal(await committed(), "-1");
    const wanted = texts(reader.seen).map((v) => `<${v}>`);
    await (await turn(wanted, 100)).commit();
    await until(async () => (await committed()) === "100", "the offset");
    await producer.disconnect();
    equal(texts(await read(topic + "-out", 100, false)), wanted);
  },

  async fencing(topic) {
    const old = await transactional(topic);
    const begun = await old.transaction();
    await send(begun, topic, ["old"]);
    const fresh = await transactional(topic);
    const transaction = await fresh.transaction(); // it takes its epoch here, not when it connects
    await rejected((e) => /PRODUCER_FENCED|INVALID_PRODUCER_EPOCH/.test(e.type), () => begun.commit());
    await send(transaction, topic, ["new"]);
    await transaction.commit();
    await fresh.disconnect();
    await old.disconnect();
    equal(texts(await read(topic, 1, false)), ["new"]);
  },

  async "leader-killed"(topic) {
    await producing({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
      for (const value of numbers(600)) {
        await send(producer, topic, [value]);
        say(`acked ${value}`);
        await sleep(5);
      }
    });
  },

  async "majority-acks"(topic) {
    await features["leader-killed"](topic);
    equal(texts(await read(topic, 600)), numbers(600));
  },

  async "from-start"(topic) {
    equal(texts(await read(topic, 3000)).map((v) => v.replace(/\.+$/, "")), numbers(3000));
  },

  async commits(topic) {
    const first = await member(topic, topic);
    await until(() => first.seen.length >= 40, "40 records");
    await first.consumer.commitOffsets([{ topic, partition: 0, offset: "40", metadata: "a note" }]);
    await first.consumer.disconnect();
    const kept = await administering((admin) => admin.fetchOffsets({ groupId: topic, topics: [topic] }));
    equal([kept[0].partitions[0].offset, kept[0].partitions[0].metadata], ["40", "a note"]);
    const second = await member(topic, topic);
    await until(() => second.seen.length, "a record");
    equal(texts(second.seen)[0], "40");
    await second.consumer.disconnect();
  },

  async resets(topic) {
    const earliest = await member(topic + "-e", topic);
    await until(() => earliest.seen.length === 100, "100 records");
    equal(texts(earliest.seen)[0], "0");
    earliest.consumer.seek({ topic, partition: 0, offset: "10000" });
    await until(() => earliest.seen.length === 200, "100 records again");
    equal(texts(earliest.seen)[100], "0");
    await earliest.consumer.disconnect();
    const latest = await member(topic + "-l", topic, { fromBeginning: false });
    await producing({}, (producer) => until(async () => (await send(producer, topic, ["new"]), latest.seen.length), "a record that is new"));
    equal(texts(latest.seen)[0], "new");
    await latest.consumer.disconnect();
  },

  async timestamps(topic) {
    const at = (ms) => administering(async (admin) => (await admin.fetchTopicOffsetsByTimestamp(topic, ms))[0].offset);
    equal(await at(FIRST_MS + 49_500), "50");
    equal(await at(FIRST_MS + 1_000_000), "100"); // kafkajs answers the end where there is none
    const reader = await member(topic, topic);
    await until(() => reader.seen.length === 100, "100 records");
    reader.consumer.seek({ topic, partition: 0, offset: "50" });
    await until(() => reader.seen.length > 100, "a record");
    equal(texts(reader.seen)[100], "50");
    await reader.consumer.disconnect();
  },

  async pause(topic) {
    const consumer = plain.consumer({ groupId: topic, maxWaitTimeInMs: 200 });
    const seen = [];
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    consumer.on(consumer.events.GROUP_JOIN, () => consumer.pause([{ topic, partitions: [0] }]));
    await consumer.run({ eachMessage: async ({ partition }) => void seen.push(partition) });
    await until(() => seen.length === 100, "100 records");
    await sleep(2000);
    equal(new Set(seen), new Set([1]));
    equal(seen.length, 100);
    consumer.resume([{ topic, partitions: [0] }]);
    await until(() => seen.length === 200, "the others");
    await consumer.disconnect();
  },

  async pattern(topic) {
    const consumer = plain.consumer({ groupId: topic, maxWaitTimeInMs: 200 });
    const seen = [];
    await consumer.connect();
    await consumer.subscribe({ topics: [new RegExp(`^${topic.replaceAll(".", "\\.")}.*`)], fromBeginning: true });
    await consumer.run({ eachMessage: async ({ topic: from }) => void seen.push(from) });
    await until(() => seen.length === 100, "100 records");
    equal(new Set(seen), new Set([topic, topic + "-two"]));
    await consumer.disconnect();
  },

  topics: (topic) =>
    administering(async (admin) => {
      const wanted = { topics: [{ topic, numPartitions: 2, replicationFactor: 3, configEntries: [{ name: "retention.ms", value: "3600000" }] }] };
      equal(await admin.createTopics(wanted), true);
      equal(await admin.createTopics(wanted), false); // how kafkajs tells that it is there
      await until(async () => (await admin.listTopics()).includes(topic), "the topic to be listed");
      const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions;
      equal((await partitions()).map((p) => p.replicas.length), [3, 3]);
      await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
      await until(async () => (await partitions()).length === 5, "five partitions");
      await admin.deleteTopics({ topics: [topic] });
      await until(async () => !(await admin.listTopics()).includes(topic), "the topic to go");
    }),

  configs: (topic) =>
    administering(async (admin) => {
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
      const entry = async () =>
        (await admin.describeConfigs({ includeSynonyms: false, resources: [resource] })).resources[0].configEntries.find((e) => e.configName === "retention.ms");
      const alter = (configEntries) => admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
      equal((await entry()).isDefault, true);
      await alter([{ name: "retention.ms", value: "1234567" }]);
      await until(async () => ((e) => e.configValue === "1234567" && !e.isDefault)(await entry()), "the setting");
      await alter([{ name: "retention.bytes", value: "-1" }]);
      await until(async () => (await entry()).isDefault, "the default");
      const broker = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: ConfigResourceTypes.BROKER, name: "1" }] });
      equal(broker.resources[0].configEntries.some((e) => e.configName === "log.dirs"), true);
    }),

  groups: (topic) =>
    administering(async (admin) => {
      const one = await member(topic, topic);
      await until(() => one.owned.length === 1, "the member to own its partition");
      const listed = async () => (await admin.listGroups()).groups.some((g) => g.groupId === topic);
      equal(await listed(), true);
      const described = (await admin.describeGroups([topic])).groups[0];
      equal([described.state, described.members.length], ["Stable", 1]);
      await rejected((e) => e.groups?.[0].errorCode === 68, () => admin.deleteGroups([topic]));
      await one.consumer.disconnect();
      await admin.deleteGroups([topic]);
      equal(await listed(), false);
    }),

  "group-offsets": (topic) =>
    administering(async (admin) => {
      const offset = async () => (await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions[0].offset;
      for (const wanted of ["40", "10"]) {
        await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: wanted }] });
        equal(await offset(), wanted);
      }
      await admin.deleteGroups([topic]); // it has no call for single offsets
      equal(await offset(), "-1");
    }),

  "list-offsets": (topic) =>
    administering(async (admin) => {
      const { low, high } = (await admin.fetchTopicOffsets(topic))[0];
      equal([low, high, (await admin.fetchTopicOffsetsByTimestamp(topic, FIRST_MS + 50_000))[0].offset], ["0", "100", "50"]);
    }),

  "delete-records": (topic) =>
    administering(async (admin) => {
      await admin.fetchTopicOffsets(topic); // deleteTopicRecords does not load the metadata it needs
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "30" }] });
      equal((await admin.fetchTopicOffsets(topic))[0].low, "30");
      equal(texts(await read(topic, 70)), numbers(100).slice(30));
    }),

  cluster: () =>
    administering(async (admin) => {
      const { brokers, controller, clusterId } = await admin.describeCluster();
      equal(brokers.map((b) => b.nodeId).sort(), [1, 2, 3]);
      equal([1, 2, 3].includes(controller) && clusterId.length > 0, true);
    }),

  reassign: (topic) =>
    administering(async (admin) => {
      const replicas = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions[0].replicas;
      const wanted = (await replicas()).slice(1);
      await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: wanted }] }] });
      await admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] });
      await until(async () => String(await replicas()) === String(wanted), "the move");
      equal(texts(await read(topic, 100)), numbers(100));
    }),

  "scram-tls": (topic) => comeAndGo(topic, secured("alice", env.SCENE_PASSWORD)),

  "wrong-password": () => turnedAway(secured("alice", "wrong")),

  async oauth(topic) {
    await comeAndGo(topic, bearer(env.SCENE_TOKEN));
    // It takes the server's reason for an answer like any other, and finds its next request's connection closed.
    const forged = bearer(env.SCENE_FORGED);
    await rejected((e) => /^KafkaJS/.test(e.name), () => producing({}, (producer) => send(producer, topic, ["no"]), forged));
  },

  async "mutual-tls"(topic) {
    await comeAndGo(topic, certified("alice"));
    await producing({}, (producer) => mayNot(producer, topic), certified("bob"));
  },

  acls: (topic) =>
    administering(async (admin) => {
      const bob = secured("bob", env.SCENE_PASSWORD);
      await producing({}, (producer) => mayNot(producer, topic), bob);
      const acl = {
        resourceType: AclResourceTypes.TOPIC, resourceName: topic, resourcePatternType: ResourcePatternTypes.LITERAL,
        principal: "User:bob", host: "*", operation: AclOperationTypes.WRITE, permissionType: AclPermissionTypes.ALLOW,
      };
      await admin.createAcls({ acl: [acl] });
      await until(() => producing({}, (producer) => send(producer, topic, ["yes"]).then(() => true, () => false), bob), "bob to be allowed");
      equal(texts(await read(topic, 1)), ["yes"]);
      const found = async () => (await admin.describeAcls(acl)).resources.flatMap((r) => r.acls.map((a) => `${r.resourceName} ${a.principal}`));
      equal(await found(), [`${topic} User:bob`]);
      await admin.deleteAcls({ filters: [acl] });
      await until(async () => (await found()).length === 0, "the ACL to go");
    }),
};

play(features, LACKS);
