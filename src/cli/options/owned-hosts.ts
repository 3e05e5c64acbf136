/** `--i-own HOST…`: each value is one host, in the form that the safety guard compares. */
import { InvalidArgumentError } from "commander";
import { AddressError, canonicalHost } from "../../contract/address.ts";

const NAME = "hosts that are yours, each that is not loopback";

const ownedHost = (text: string, before: string[] | undefined): string[] => {
  try {
    return [...(before ?? []), canonicalHost(text)];
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new InvalidArgumentError(`${error.message}, such as maps.example.`);
  }
};

/** For Commander's `option`. */
export const I_OWN = ["--i-own <host...>", NAME, ownedHost] as const;
