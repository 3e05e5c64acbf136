/**
 * The manifests of a distributed run by the k6-operator: fields as in its custom resource definition `k6.io/v1alpha1`
 * TestRun (v1.6.0, config/crd/bases/k6.io_testruns.yaml). Scalars are written as JSON, which YAML reads as it is.
 */

export type OperatorRun = {
  name: string;
  parallelism: number;
  image: string;
  k6Version: string;
  /** Environment variables, which are the Secret's keys as well, and where each value stands in the target file. */
  wanted: readonly { variable: string; what: string }[];
  notes: readonly string[];
};

export const ARCHIVE = "archive.tar";

const NOT_RUN = "# Written by floodgate load --operator. It has not been run on a cluster.";

export const secretName = ({ name }: OperatorRun): string => `${name}-target`;

const testRunYaml = (run: OperatorRun): string => `${NOT_RUN}
apiVersion: k6.io/v1alpha1
kind: TestRun
metadata:
  name: ${JSON.stringify(run.name)}
spec:
  # Runners; each has its part of the schedule and of the budget, which are in the archive.
  parallelism: ${run.parallelism}
  script:
    configMap:
      name: ${JSON.stringify(run.name)}
      file: ${JSON.stringify(ARCHIVE)}
  # Looks into the archive only, so it is given no secrets.
  initializer:
    image: ${JSON.stringify(run.image)}
  runner:
    image: ${JSON.stringify(run.image)}
    env:
      # From here on a missing secret is an error.
      - name: FLOODGATE_ARCHIVING
        value: "no"
      # Every call as a line of the runner's log, for floodgate report --merge.
      - name: PART
        value: /dev/stdout
    envFrom:
      - secretRef:
          name: ${JSON.stringify(secretName(run))}
`;

const configMapYaml = (run: OperatorRun, archive: Buffer): string => `${NOT_RUN}
apiVersion: v1
kind: ConfigMap
metadata:
  name: ${JSON.stringify(run.name)}
binaryData:
  ${ARCHIVE}: ${JSON.stringify(archive.toString("base64"))}
`;

const readme = (run: OperatorRun): string => `# ${run.name}, by the k6-operator

It has not been run on a cluster. The fields are those of the k6-operator v1.6.0.

1. Image: \`cp .tools/k6 .\` beside the Dockerfile, then \`docker build -t ${run.image} .\` and push it where the cluster finds it.
2. Secret: fill in a copy of \`secret.env\` outside of any repository, then
   \`kubectl create secret generic ${secretName(run)} --from-env-file=FILE\`.
3. \`kubectl apply --server-side -f configmap.yaml\` (its archive is too long for the annotation of a client-side apply).
4. \`kubectl create -f testrun.yaml\`; to run it again, \`kubectl delete testrun ${run.name}\` first.
5. When it is over, one file a runner, then one verdict:
   \`for pod in $(kubectl get pods -l k6_cr=${run.name},runner=true -o name); do kubectl logs $pod > $(basename $pod).part; done\`
   \`npx floodgate report --merge *.part\`

| file | |
| --- | --- |
| testrun.yaml | the TestRun: ${run.parallelism} runners |
| configmap.yaml | the archive, as the runners get it |
| ${ARCHIVE} | the same, made by \`k6 archive\`: the scenario and the target file without its secrets |
| secret.env | names of the variables that hold the secrets, without values |
| Dockerfile | the image of the runners |

Know before you rely on it:

${run.notes.map((note) => `- ${note}`).join("\n")}
- Each runner keeps to an equal part of budget and highest rate, so all together never pass them; stop_when ends a runner by
  the errors that it sees itself.
- Each runner has its own summary, its own thresholds and its own sessions; the operator adds nothing up, and shows a run as
  finished even where runners failed. \`report --merge\` does: a part that is missing, or broke off, makes it inconclusive.
`;

/** The files by their names; `archive` only where a ConfigMap can hold it. */
export const manifestsOf = (run: OperatorRun, archive: Buffer | null): Record<string, string> => ({
  "testrun.yaml": testRunYaml(run),
  ...(archive && { "configmap.yaml": configMapYaml(run, archive) }),
  "secret.env": run.wanted.map(({ variable, what }) => `# ${what}\n${variable}=\n`).join(""),
  Dockerfile: `${NOT_RUN}
# k6 ${run.k6Version} with k6/x/sse as floodgate builds it: put the Linux binary (.tools/k6) beside this file.
FROM grafana/k6:${run.k6Version}
COPY k6 /usr/bin/k6
`,
  "README.md": readme(run),
});
