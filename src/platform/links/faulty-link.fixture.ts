/** A TCP link in this process that is broken in ways which the faults of a link have not, or more abruptly, and healed. */
import { type LinkToxic, linkBefore, TOXICS } from "../../tools/stand-in-proxy.ts";

/** A well-formed answer that means nothing. */
const NONSENSE = Buffer.from('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"x":1}');

const WORKS: typeof TOXICS = {
  ...TOXICS,
  nonsense: (_data, _attributes, { answer }) => answer(NONSENSE),
  truncated: (data, _attributes, { pass, close }) => {
    pass(data.subarray(0, data.length - 5));
    close();
  },
};

const toxic = (type: string, stream: LinkToxic["stream"], attributes: LinkToxic["attributes"] = {}): LinkToxic[] => [
  { name: type, type, stream, toxicity: 1, attributes },
];

const FAULTS = {
  "accepted-then-closed": toxic("limit_data", "upstream", { bytes: 0 }),
  "request-lost": toxic("timeout", "upstream"),
  "reply-lost": toxic("timeout", "downstream"),
  reset: toxic("reset_peer", "upstream"),
  "truncated-reply": toxic("truncated", "downstream"),
  nonsense: toxic("nonsense", "upstream"),
};
export type LinkFault = keyof typeof FAULTS | "none";
export const LINK_FAULTS = Object.keys(FAULTS) as (keyof typeof FAULTS)[];

export type FaultyLink = Awaited<ReturnType<typeof startFaultyLink>>;

/** `target`: any URL with host and port. */
export const startFaultyLink = async (target: string) => {
  const link = await linkBefore(target, "", undefined, WORKS);
  return {
    url: link.url(),
    /** For connections that are open and for new ones. `none` leaves those open that have lost something. */
    setFault: (fault: LinkFault): void => {
      link.toxics = fault === "none" ? [] : FAULTS[fault];
    },
    /** Ends what is open: nothing that was left unanswered is answered late. */
    cut: (): void => link.cut(),
    /** Stops listening and ends what is open: connections are refused. */
    refuse: (): Promise<void> => link.setEnabled(false),
    listenAgain: (): Promise<void> => link.setEnabled(true),
    close: (): Promise<void> => link.setEnabled(false),
  };
};
