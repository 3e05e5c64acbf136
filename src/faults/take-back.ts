/** Takes back what was done to proxies and control planes; handed to supervision/, which knows neither. */

import { controlGet, controlSend } from "../client/control-planes.ts";
import type { TakeBack } from "../supervision/take-back.ts";
import { openToxiproxy } from "../tools/toxiproxy.ts";
import { heal } from "./healing.ts";

/** One proxy, on a server that others may use: what is not ours stays as it is. Throws a sentence unless it serves. */
const proxy: TakeBack["proxy"] = async (undo, { signal, callMs }) => {
  const toxiproxy = openToxiproxy(undo.api_url, { signal, callMs });
  try {
    const healing = await heal(toxiproxy, undo.proxy, { signal, callMs, mayReset: false, mayEnable: undo.disables });
    // Toxics live in the server's memory: with the server they are gone.
    if (healing.gone) return "gone with its toxiproxy";
    const did = healing.did.join(", ") || "nothing of ours was on it";
    if (healing.disabledByOthers) return `${did}; somebody else disabled the proxy, so it stays disabled`;
    if (!healing.healed) throw new Error(`proxy "${undo.proxy}" is not whole: ${healing.trouble.join("; ")}`);
    if (healing.serving === "closes") {
      throw new Error(`${did}; but proxy "${undo.proxy}" hangs up at once, because nobody answers at its upstream`);
    }
    return healing.did.length === 0 ? "it was whole" : did;
  } finally {
    await toxiproxy.close();
  }
};

/** Read back, because a 200 alone changes nothing. Every plane is tried. */
const change: TakeBack["change"] = async ({ planes }) => {
  const troubles: string[] = [];
  for (const { url, was } of planes) {
    try {
      await controlSend("PATCH", `${url}/deployment`, was);
      const now = await controlGet<Record<string, unknown>>(`${url}/deployment`);
      const differs = Object.keys(was).filter((field) => now[field] !== was[field]);
      if (differs.length > 0) throw new Error(`${url}/deployment reads back another ${differs.join(", ")}`);
    } catch (error) {
      troubles.push((error as Error).message);
    }
  }
  if (troubles.length > 0) throw new Error(troubles.join("; "));
  return `put ${planes.flatMap(({ was }) => Object.keys(was)).join(", ")} back as before`;
};

export const TAKE_BACK: TakeBack = { proxy, change };
