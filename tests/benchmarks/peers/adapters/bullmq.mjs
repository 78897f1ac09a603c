// BullMQ: https://docs.bullmq.io. It speaks the protocol of peer.py.

import { createRequire } from "node:module";
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";

const require = createRequire(join(process.env.BENCH_MODULES, "package.json"));
const { Queue, Worker } = require("bullmq");

const url = new URL(process.env.BENCH_URL ?? "redis://127.0.0.1:6379");
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const BODY = { data: "x".repeat(89) };
const DONE = { removeOnComplete: true };
const CHUNK = 1000;
const COMMAND = "{node} {adapter} worker";
const now = () => Number(process.hrtime.bigint()) / 1e9; // the clock of Python's time.monotonic

function work(body) {
  if (body.sent !== undefined) {
    const fifo = openSync(process.env.BENCH_PICK_UPS, "w");
    writeSync(fifo, `${((now() - body.sent) * 1000).toFixed(4)}\n`);
    closeSync(fifo);
  }
}

const versionOf = (name) =>
  JSON.parse(readFileSync(join(process.env.BENCH_MODULES, "node_modules", name, "package.json"))).version;

let queue, taker;

async function timed(step, each, count, seconds) {
  const began = performance.now();
  let done = 0;
  while (done < count && performance.now() < began + seconds * 1000) {
    if ((await step()) === false) break;
    done += each;
  }
  return [done, (performance.now() - began) / 1000];
}

const verbs = {
  about: () => ({
    versions: { bullmq: versionOf("bullmq"), ioredis: versionOf("ioredis"), node: process.versions.node },
    setting: "removeOnComplete; concurrency 1 as it comes",
    workers: { "as it comes": COMMAND, "10 async": COMMAND, "100 async": COMMAND },
    left: [
      ["LLEN", "bull:bench:wait"],
      ["LLEN", "bull:bench:active"],
    ],
    crash: "redelivered by the check for stalled jobs, about 60 s",
    fence: "yes",
    leaves: "nothing",
    verbs: ["send_chunk", "take_one"],
  }),
  prepare: async () => {
    queue ??= new Queue("bench", { connection, defaultJobOptions: DONE });
    await queue.waitUntilReady();
  },
  send_one: async (count, seconds) => {
    await queue.add("work", BODY);
    return timed(() => queue.add("work", BODY), 1, count, seconds);
  },
  send_many: (count, seconds) => {
    const jobs = Array.from({ length: Math.min(count, CHUNK) }, () => ({ name: "work", data: BODY }));
    return timed(() => queue.addBulk(jobs), jobs.length, count, seconds);
  },
  one_by_one: async (seconds) => {
    taker ??= new Worker("bench", null, { connection, ...DONE });
    return timed(
      async () => {
        const job = await taker.getNextJob("token", { block: false });
        if (!job) return false;
        await job.moveToCompleted(null, "token", false);
      },
      1,
      Infinity,
      seconds,
    );
  },
  pick_up: async (count, seconds) => {
    const fifo = openSync(process.env.BENCH_PICK_UPS, "r+");
    const end = performance.now() + seconds * 1000;
    const buffer = Buffer.alloc(100);
    const waited = [];
    while (waited.length < count && (performance.now() < end || !waited.length)) {
      await queue.add("work", { sent: now() });
      waited.push(parseFloat(buffer.toString("utf8", 0, readSync(fifo, buffer))));
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 10));
    }
    closeSync(fifo);
    return waited;
  },
};

if (process.argv[2] === "worker") {
  const atOnce = Number(process.env.BENCH_AT_ONCE);
  new Worker("bench", async (job) => work(job.data), { connection, concurrency: atOnce, ...DONE });
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...words] = JSON.parse(line);
    process.stdout.write(`${JSON.stringify((await verbs[verb](...words)) ?? null)}\n`);
  }
  process.exit();
}
