import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { cpuStatPaths, parseNetstat, parsePortsShare, parseThrottledUs, watchHost } from "./driver.ts";

test("counters of the network stack are read by name from two lines", () => {
  const text = "TcpExt: SyncookiesSent ListenOverflows TCPSynRetrans\nTcpExt: 1 22 333\nIpExt: InNoRoutes\nIpExt: 5\n";
  expect(parseNetstat(text)).toMatchObject({ ListenOverflows: 22, TCPSynRetrans: 333 });
  expect(parseNetstat("")).toEqual({});
});

test("ports in use are sockets and those that wait to be forgotten, over the range", () => {
  const sockstat = "sockets: used 300\nTCP: inuse 90 orphan 0 tw 10 alloc 95 mem 4\nUDP: inuse 2 mem 1\n";
  expect(parsePortsShare(sockstat, "10000\t10999\n")).toBe(0.1);
  expect(parsePortsShare("", "1 2")).toBeNull();
  expect(parsePortsShare(sockstat, "")).toBeNull();
});

test("how long a control group was held back stands in its statistics, where it has a limit", () => {
  expect(parseThrottledUs("usage_usec 5\nnr_throttled 3\nthrottled_usec 4200\n")).toBe(4200);
  expect(parseThrottledUs("usage_usec 5\n")).toBeNull();
  expect(parseThrottledUs("nr_periods 265\nnr_throttled 88\nthrottled_time 4663672\n")).toBe(4663.672);
});

test.each([
  [
    "version 2",
    "0::/ci.slice/job\n",
    ["/sys/fs/cgroup/ci.slice/job/cpu.stat", "/sys/fs/cgroup/ci.slice/cpu.stat", "/sys/fs/cgroup/cpu.stat"],
  ],
  ["a container of version 2", "0::/\n", ["/sys/fs/cgroup/cpu.stat"]],
  [
    "version 1",
    "5:memory:/docker/a\n4:cpuset:/docker/a\n3:cpu,cpuacct:/docker/a\n",
    [
      "/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.stat",
      "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.stat",
      "/sys/fs/cgroup/cpu,cpuacct/cpu.stat",
    ],
  ],
])("the statistics of our control group are found: %s", (_, groups, paths) => {
  expect(cpuStatPaths(groups)).toEqual(paths);
});

test("a loop that stood still is noticed", async () => {
  const ended = watchHost();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const untilMs = performance.now() + 120;
  while (performance.now() < untilMs);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const notes = ended();
  expect(notes.event_loop_lag_ms_max).toBeGreaterThan(80);
  // How much of a core it got in that time is for the machine to say.
  expect(notes.cpu_share).toBeGreaterThan(0);
});

test("CPU time that only waiting took is not what the generator needed", () => {
  const ended = watchHost();
  const untilMs = performance.now() + 50;
  while (performance.now() < untilMs);
  expect(ended().cpu_share).toBeGreaterThan(0);
  // More than it can have used, however long this took.
  expect(ended(1e12).cpu_share).toBeLessThan(0);
});

test.skipIf(process.platform !== "linux")(
  "files that are open at once are counted, and how busy the machine was",
  async () => {
    const ended = watchHost();
    const before = ended().descriptors_share as number;
    const again = watchHost();
    const servers = Array.from({ length: 20 }, () => createServer().listen(0, "127.0.0.1"));
    await Promise.all(servers.map((server) => new Promise((resolve) => server.once("listening", resolve))));
    const notes = again();
    for (const server of servers) server.close();
    expect(notes.descriptors_share).toBeGreaterThan(before);
    expect(notes.ports_share).toBeGreaterThanOrEqual(0);
  },
);

test.skipIf(process.platform !== "linux")("of a process beside it the CPU is read, and no event loop", async () => {
  const busy = spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
  const ended = watchHost([busy.pid as number]);
  try {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const notes = ended();
    expect(notes.cpu_share).toBeGreaterThan(0);
    expect(notes.event_loop_lag_ms_p99).toBeNull();
  } finally {
    busy.kill("SIGKILL");
  }
});
