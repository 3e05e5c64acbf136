/** Loopback hosts: the safety guard lets a run load them without a permit, and listeners there are private. */

const LOOPBACK = /^(?:localhost|127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}|\[::1\]|::1)$/;

/** `host`: a name or an address without a port, IPv6 with or without brackets. */
export const isLoopbackHost = (host: string): boolean => LOOPBACK.test(host.toLowerCase());
