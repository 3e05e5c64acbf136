/** Searches everything written during the run for unmasked keys, session tokens and JWTs. */
import { findSecrets } from "../contract/credentials.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped } from "./invariant.ts";

export const secretsStaySecret: Invariant = {
  id: "secrets-stay-secret",
  level: "must",
  folded: true,
  spec: [20, 27, 40, 41, 50],
  statement: "no text written during the run holds a credential that is not masked",
  judge({ texts }) {
    if (texts === undefined) return skipped("the texts written by the target's processes");
    const evidence = new Evidence();
    const names = new Set<string>();
    let characters = 0;
    for (const { name, text } of texts) {
      names.add(name);
      characters += text.length;
      for (const masked of findSecrets(text)) evidence.breach(name, `${masked} stands unmasked in ${name}`);
    }
    if (evidence.count > 0) return failed("a credential was written down", evidence);
    if (characters === 0) return inconclusive("nothing was written, so nothing was searched");
    return passed(`${characters} characters in ${names.size} texts hold no credential`);
  },
};
