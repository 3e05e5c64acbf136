/** One end of a connection that exists in this process alone: as much of a TCP socket as Node's HTTP and undici use. */
import { Duplex } from "node:stream";

/** What arrives at the other end, in order. */
export type Packet = { data: Buffer } | "end" | "gone" | "reset";

export const socketError = (code: string): Error => Object.assign(new Error(`virtual link: ${code}`), { code });

export class VirtualSocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  readonly remoteFamily = "IPv4";
  readonly localAddress = "127.0.0.1";
  readonly remotePort: number;
  /** Where what is written goes; set by the network. */
  out: (packet: Packet) => void = () => undefined;
  #isReset = false;
  /** Nobody reads what is written any more. */
  #isAlone = false;

  constructor(remotePort: number, allowHalfOpen: boolean) {
    super({ allowHalfOpen });
    this.remotePort = remotePort;
  }

  /** A packet from the other end. */
  receive(packet: Packet): void {
    if (this.destroyed) {
      // What arrives at a closed socket is answered with a reset.
      if (typeof packet === "object") this.out("reset");
      return;
    }
    if (packet === "reset") this.destroy(socketError("ECONNRESET"));
    else if (packet === "end" || packet === "gone") {
      this.#isAlone = packet === "gone";
      if (!this.readableEnded) this.push(null);
    } else this.push(packet.data);
  }

  override _read(): void {
    // Pushed as it comes: both ends live in one process, and what is written is small.
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    if (this.#isAlone) done(socketError("EPIPE"));
    else {
      this.out({ data: Buffer.from(chunk) });
      done();
    }
  }

  override _final(done: () => void): void {
    this.out("end");
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.out(this.#isReset ? "reset" : "gone");
    done(error);
  }

  resetAndDestroy(): this {
    this.#isReset = true;
    return this.destroy();
  }

  destroySoon(): void {
    if (this.writableFinished) this.destroy();
    else {
      this.once("finish", () => this.destroy());
      this.end();
    }
  }

  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  setTimeout(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}
