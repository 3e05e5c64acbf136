/** Certificates of a test's own authority: good ones, one that has expired, one of another name. Needs openssl. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

type Identity = { cert: string; key: string };

export type Certificates = {
  /** Path of the authority's own certificate, and its text. */
  caFile: string;
  ca: string;
  /** Of 127.0.0.1 and localhost. */
  good: Identity;
  expired: Identity;
  otherName: Identity;
  /** Signed by nobody. */
  selfSigned: Identity;
};

const YESTERDAY = "20200101000000Z";
const LONG_AGO_ENDED = "20200201000000Z";
const FAR_AWAY = "20990101000000Z";
const HERE = "IP:127.0.0.1,DNS:localhost";
const KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/** `null` where there is no openssl. */
export const makeCertificates = (folder: string): Certificates | null => {
  const path = (name: string): string => join(folder, name);
  const openssl = (...args: string[]): void => void execFileSync("openssl", args, { cwd: folder, stdio: "pipe" });
  const read = (name: string): string => readFileSync(path(name), "utf8");
  mkdirSync(folder, { recursive: true });
  writeFileSync(path("index.txt"), "");
  writeFileSync(path("serial"), "01\n");
  writeFileSync(
    path("ca.cnf"),
    "[ca]\ndefault_ca=d\n[d]\ndir=.\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n",
  );
  const selfSigned = (name: string, subject: string, names: string): void =>
    openssl(
      ...["req", "-x509", ...KEY, "-days", "3", "-keyout", `${name}.key`, "-out", `${name}.pem`],
      ...["-subj", `/CN=${subject}`, "-addext", `subjectAltName=${names}`],
    );
  const signed = (name: string, names: string, ends: string): Identity => {
    openssl("req", ...KEY, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", "/CN=maps.test");
    writeFileSync(path(`${name}.ext`), `subjectAltName=${names}\n`);
    openssl(
      ...["ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-in", `${name}.csr`],
      ...["-out", `${name}.pem`, "-notext", "-startdate", YESTERDAY, "-enddate", ends, "-extfile", `${name}.ext`],
    );
    return { cert: read(`${name}.pem`), key: read(`${name}.key`) };
  };
  try {
    selfSigned("ca", "Authority of a test", "DNS:authority.test");
  } catch {
    console.warn("SKIPPED: the tests of certificates need openssl");
    return null;
  }
  selfSigned("own", "maps.test", HERE);
  return {
    caFile: path("ca.pem"),
    ca: read("ca.pem"),
    good: signed("good", HERE, FAR_AWAY),
    expired: signed("expired", HERE, LONG_AGO_ENDED),
    otherName: signed("other", "DNS:elsewhere.test", FAR_AWAY),
    selfSigned: { cert: read("own.pem"), key: read("own.key") },
  };
};
