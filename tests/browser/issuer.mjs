// An issuer of OpenID Connect, as far as the console needs one: a page to sign in on, a session of its
// own by a cookie, so that it signs in again without asking, and tokens for whoever shows the right code.
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const seconds = () => Math.floor(Date.now() / 1000);

/** Listens on `port`; `address` is what browsers and the service know it by. */
export async function startIssuer(port) {
  const address = `http://localhost:${port}`;
  const codes = new Map();
  const issuer = {
    address,
    asked: [],  // The parameters of each way there.
    signedIn: undefined,  // Who, and since when: { email, at } in seconds.
    stop: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }),
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, address);
    const parameters = Object.fromEntries(url.searchParams);
    const json = (value) => response.setHeader("Content-Type", "application/json").end(JSON.stringify(value));
    const back = () => {
      const code = randomBytes(8).toString("hex");
      const { redirect_uri: to, state, nonce, code_challenge: challenge } = parameters;
      codes.set(code, { nonce, challenge, ...issuer.signedIn });
      response.writeHead(302, { Location: `${to}?${new URLSearchParams({ code, state })}` }).end();
    };
    if (url.pathname === "/.well-known/openid-configuration") {
      json({ issuer: address, authorization_endpoint: `${address}/auth`, token_endpoint: `${address}/token` });
    } else if (url.pathname === "/auth") {
      issuer.asked.push(parameters);
      if (issuer.signedIn !== undefined && parameters.prompt !== "login") {
        back();
        return;
      }
      const kept = Object.entries(parameters).map(([name, value]) =>
        `<input type="hidden" name="${name}" value="${value.replaceAll('"', "&quot;")}">`).join("");
      response.setHeader("Content-Type", "text/html").end(`<!doctype html><title>Issuer</title><h1>The organization</h1>
        <form action="/in">${kept}<label>Who <input name="email"></label><button>Go on</button></form>`);
    } else if (url.pathname === "/in") {
      issuer.signedIn = { email: parameters.email, at: seconds() };
      back();
    } else if (url.pathname === "/token") {
      let text = "";
      request.on("data", (chunk) => { text += chunk; });
      await once(request, "end");
      const shown = new URLSearchParams(text);
      const made = codes.get(shown.get("code"));
      codes.delete(shown.get("code"));
      if (made === undefined || createHash("sha256").update(shown.get("code_verifier")).digest("base64url") !== made.challenge) {
        response.statusCode = 400;
        json({ error: "invalid_grant" });
        return;
      }
      const claims = {
        iss: address, aud: "console", sub: made.email, email: made.email, email_verified: true, nonce: made.nonce,
        iat: seconds(), exp: seconds() + 300, auth_time: made.at,
      };
      json({ id_token: `${encoded({ alg: "none" })}.${encoded(claims)}.x` });
    } else {
      response.writeHead(404).end();
    }
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return issuer;
}
