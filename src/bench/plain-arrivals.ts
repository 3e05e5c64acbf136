/** Plain k6, without our extensions: its arrival-rate executor and HTTP client at one rate. Runs in k6, not in Node. */
import http from "k6/http";

const { FLOODGATE_URL: url = "", FLOODGATE_RATE: rate = "1", FLOODGATE_SECONDS: seconds = "1" } = __ENV;

export const options = {
  discardResponseBodies: true,
  scenarios: {
    plain: {
      executor: "constant-arrival-rate",
      rate: Number(rate),
      timeUnit: "1s",
      duration: `${seconds}s`,
      // A call takes a millisecond; the other VUs are for moments in which the machine stands still.
      preAllocatedVUs: Math.ceil(Number(rate) * 0.03) + 50,
      gracefulStop: "5s",
    },
  },
};

const headers = { authorization: "Bearer svc_sk_live_bench" };

export default (): void => {
  http.get(url, { headers });
};
