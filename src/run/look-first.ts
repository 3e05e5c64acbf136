/** Checks that a deployment takes connections by the stated protocol and with a trusted certificate. No request is sent. */
import { noHandshake, notAnswering, notTrusted } from "../client/network-errors.ts";
import { certificateText, lookAtTcp, lookAtTls, placeOf, speaksTls } from "../client/tls-look.ts";
import { tlsFiles, wrongTlsFile } from "../client/transport.ts";
import type { PreparedTarget } from "../stages/prepare-target.ts";
import { TargetUnreachableError } from "../verify/reach.ts";
import { UsageError } from "./exit-codes.ts";

type Said = { text: string; todo: string };

const lookThroughProxy = async (proxy: string): Promise<Said | null> => {
  const code = URL.canParse(proxy) ? await lookAtTcp(placeOf(proxy)) : null;
  return code === null ? null : notAnswering("the proxy of transport.proxy", code);
};

const lookDirectly = async ({ target, secrets }: Pick<PreparedTarget, "target" | "secrets">): Promise<Said | null> => {
  const url = target.base_url;
  const place = placeOf(url);
  const code = await lookAtTcp(place);
  if (code !== null) return notAnswering(url, code);
  const seen = await lookAtTls(target, secrets);
  if (seen === null) return (await speaksTls(place)) ? notAnswering(url, "tls_expected") : null;
  if ("error" in seen) {
    const { text, todo } = noHandshake(seen.error);
    return { text: `${url}: ${text}`, todo };
  }
  if (target.transport?.protocol === "h2" && seen.alpn !== "h2") {
    return {
      text: `${url}: offers HTTP/1.1 alone, and transport.protocol says h2`,
      todo: 'write "h1" there, or turn HTTP/2 on at the gateway',
    };
  }
  if (seen.distrust === null) return null;
  const { text, todo } = notTrusted(certificateText(seen), seen.distrust);
  return { text: `${url}: ${text}`, todo };
};

/** Throws `TargetUnreachableError` for what is not reached, `SecretError` and `UsageError` for a file that is missing or wrong. */
export const lookFirst = async (prepared: Pick<PreparedTarget, "target" | "secrets">): Promise<void> => {
  const { target, secrets } = prepared;
  const { transport = {} } = target;
  const wrong = wrongTlsFile(await tlsFiles(transport, secrets));
  if (wrong !== null) throw new UsageError(wrong);
  for (const [name, ref] of Object.entries(transport.headers ?? {})) {
    await secrets.read(ref, `transport.headers.${name}`);
  }
  const proxy = typeof transport.proxy === "string" ? await secrets.read(transport.proxy, "transport.proxy") : null;
  const said = proxy === null ? await lookDirectly(prepared) : await lookThroughProxy(proxy);
  if (said !== null) throw new TargetUnreachableError(`${said.text}; ${said.todo}`);
};
