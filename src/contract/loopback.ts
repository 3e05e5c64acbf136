/** Hosts that never leave the machine: what the safety guard lets a run load unasked, and where a listener is private. */

const LOOPBACK = /^(?:localhost|127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}|\[::1\]|::1)$/;

/** `host`: a name or an address as it stands in a URL or an option, IPv6 with or without brackets, without a port. */
export const isLoopbackHost = (host: string): boolean => LOOPBACK.test(host.toLowerCase());
