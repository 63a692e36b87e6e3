// The request of the playground as a program would send it. No key is ever in it: programs read
// theirs from the environment, and whoever looks over a shoulder sees its name only.
import type { RequestBody } from "./draft";

export type Language = "curl" | "Python" | "JavaScript";
export const languages: readonly [Language, ...Language[]] = ["curl", "Python", "JavaScript"];

export const keyVariable = "AUDIO_API_KEY";

/**
 * `base` ends in /api/v1; `key` is shown as given, a shell's variable by default. `intention`: the Idempotency-Key where
 * the language has none of its own, for this body alone. Whoever runs the same text again makes nothing new.
 */
export function snippet(language: Language, base: string, body: RequestBody, intention: string, key = `$${keyVariable}`): string {
  switch (language) {
    case "curl":
      return curl(base, body, intention, key);
    case "Python":
      return python(base, body);
    case "JavaScript":
      return javaScript(base, body);
  }
}

/** One word of a POSIX shell, whatever is in it. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function curl(base: string, body: RequestBody, intention: string, key: string): string {
  return [
    `curl -sS ${base}/audio/generations \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -H "Idempotency-Key: ${intention}" \\`,
    `  -d ${shellQuoted(JSON.stringify(body))}`,
  ].join("\n");
}

function python(base: string, body: RequestBody): string {
  return `import json, os, time, urllib.request, uuid

BASE = ${JSON.stringify(base)}
AUTH = {"Authorization": "Bearer " + os.environ["${keyVariable}"]}

def call(path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, {**AUTH, **headers})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)

task = call("/audio/generations", ${indented(pythonLiteral(body))},
            **{"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())})
while task["status"] in ("queued", "processing"):
    time.sleep(3)
    task = call("/audio/generations/" + task["id"])
print(task["output"]["url"] if task["output"] else task["error"])
`;
}

// JSON is Python here: the body has texts, numbers and lists of texts only.
function pythonLiteral(body: RequestBody): string {
  return JSON.stringify(body, null, 4);
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n    ").replace(/ {4}}$/, "}");
}

function javaScript(base: string, body: RequestBody): string {
  return `const base = ${JSON.stringify(base)};
const headers = { Authorization: \`Bearer \${process.env.${keyVariable}}\` };

const call = async (path, init = {}) => {
  const answer = await fetch(base + path, { ...init, headers: { ...headers, ...init.headers } });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

let task = await call("/audio/generations", {
  method: "POST",
  headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),
});
while (task.status === "queued" || task.status === "processing") {
  await new Promise((resolve) => setTimeout(resolve, 3000));
  task = await call(\`/audio/generations/\${task.id}\`);
}
console.log(task.output?.url ?? task.error);
`;
}
