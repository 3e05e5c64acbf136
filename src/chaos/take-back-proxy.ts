/** Takes back what was done to a proxy of a toxiproxy server; handed to supervision/, which knows no proxies. */
import type { TakeBackProxy } from "../supervision/carry-out.ts";
import { heal } from "./healing.ts";
import { openToxiproxy } from "./toxiproxy.ts";

export const takeBackProxy: TakeBackProxy = async (undo, { signal, callMs }) => {
  const toxiproxy = openToxiproxy(undo.api_url, { signal, callMs });
  try {
    if (undo.how === "remove-proxy") {
      await toxiproxy.removeProxy(undo.proxy);
      return "removed";
    }
    const mayEnable = undo.may_reset || undo.disables !== false;
    const healing = await heal(toxiproxy, undo.proxy, { signal, callMs, mayReset: undo.may_reset, mayEnable });
    // Toxics live in the server's memory: with the server they are gone.
    if (healing.gone) return "gone with its toxiproxy";
    if (!healing.healed) throw new Error(`proxy "${undo.proxy}" is not whole: ${healing.trouble.join("; ")}`);
    return healing.did.join(", ") || "it was whole";
  } finally {
    await toxiproxy.close();
  }
};
