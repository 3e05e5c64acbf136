/** A limiter service in a process of its own, for tests that stall this one or kill that one. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

export type ServiceProcess = { url: string; controlUrl: string; child: ChildProcess; kill(): Promise<void> };

/** `store`: a call that makes the store, in the words of `local-limiter.ts`. */
export const startServiceProcess = async (store: string): Promise<ServiceProcess> => {
  const code = `
    import { memoryLimiterStore, sqliteLimiterStore } from "${new URL("./local-limiter.ts", import.meta.url).href}";
    import { startLimiterService } from "${new URL("./limiter-service.ts", import.meta.url).href}";
    const { url, controlUrl } = await startLimiterService({ store: ${store}, port: 0, controlPort: 0 });
    console.log(JSON.stringify({ url, controlUrl }));
    // Dies with the test, whatever becomes of it.
    process.stdin.on("end", () => process.exit()).resume();
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
  return {
    ...(JSON.parse(line.toString()) as { url: string; controlUrl: string }),
    child,
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
};
