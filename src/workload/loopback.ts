/** Hosts that nobody else can be behind: nothing has to be permitted there (interface.md section 1, "Safety guard"). */
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\]|::1)$/;

export const isLoopbackHost = (host: string): boolean => LOOPBACK.test(host.toLowerCase());

/** The host of an http or https address; `null` for what is none, and for one with a user in it, which could hide the host. */
export const hostOf = (url: string): string | null =>
  /^https?:\/\/(\[[0-9a-f:]+\]|[a-z0-9._-]+)(?::\d+)?(?:[/?#]|$)/i.exec(url)?.[1] ?? null;
