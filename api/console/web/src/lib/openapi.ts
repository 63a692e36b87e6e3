// The published description, flattened to what a reader wants to see of it.

type Json = { readonly [name: string]: unknown };

export interface Parameter {
  name: string; place: string; required: boolean; type: string; text: string;
  example?: string;
  choices: string[];  // Of those that take one of a list.
}
export interface Member { name: string; depth: number; required: boolean; type: string; text: string }
export interface Reply { status: string; text: string; members: Member[]; example?: string }
export interface Operation {
  id: string;
  method: string;
  path: string;
  summary: string;
  text: string;
  needsKey: boolean;
  parameters: Parameter[];
  body: Member[];
  bodyExample?: string;
  replies: Reply[];
}
export interface Section { name: string; text: string; operations: Operation[] }
export interface Reference { title: string; version: string; text: string; base: string; sections: Section[] }

const methods = ["get", "post", "put", "patch", "delete"];
/** Objects in objects in objects: deeper than any of ours, and an end for those in circles. */
const deepest = 4;

export function readDescription(document: unknown): Reference {
  const root = object(document);
  const operations = Object.entries(object(root["paths"])).flatMap(([path, item]) =>
    methods.filter((method) => method in object(item)).map((method) => {
      const operation = object(object(item)[method]);
      return { tag: text(list(operation["tags"])[0]), shown: readOperation(root, path, method, operation) };
    }));
  const info = object(root["info"]);
  return {
    title: text(info["title"]),
    version: text(info["version"]),
    text: text(info["description"]),
    base: text(object(list(root["servers"])[0])["url"]),
    sections: list(root["tags"]).map((tag) => ({
      name: text(object(tag)["name"]),
      text: text(object(tag)["description"]),
      operations: operations.filter((one) => one.tag === text(object(tag)["name"])).map((one) => one.shown),
    })).filter((section) => section.operations.length > 0),
  };
}

function readOperation(root: Json, path: string, method: string, operation: Json): Operation {
  const content = jsonOf(root, operation["requestBody"]);
  const example = exampleOf(content);
  const security = operation["security"] ?? root["security"];
  return {
    id: text(operation["operationId"]),
    method: method.toUpperCase(),
    path,
    summary: text(operation["summary"]),
    text: text(operation["description"]),
    needsKey: list(security).length > 0,
    parameters: list(operation["parameters"]).map((parameter) => readParameter(root, resolve(root, parameter))),
    body: members(root, content["schema"], 0),
    ...(example === undefined ? {} : { bodyExample: example }),
    replies: Object.entries(object(operation["responses"])).map(([status, reply]) => readReply(root, status, resolve(root, reply))),
  };
}

function readParameter(root: Json, parameter: Json): Parameter {
  const schema = shapeOf(root, parameter["schema"]);
  const example = parameter["example"] ?? schema["example"] ?? list(schema["examples"])[0];
  return {
    name: text(parameter["name"]),
    place: text(parameter["in"]),
    required: parameter["required"] === true,
    type: typeName(root, parameter["schema"]),
    text: text(parameter["description"]),
    choices: list(shapeOf(root, parameter["schema"])["enum"]).map(String),
    ...(example === undefined ? {} : { example: String(example) }),
  };
}

function readReply(root: Json, status: string, reply: Json): Reply {
  const content = jsonOf(root, reply);
  const example = exampleOf(content);
  return {
    status,
    text: text(reply["description"]),
    members: status.startsWith("2") ? members(root, content["schema"], 0) : [],
    ...(example === undefined ? {} : { example }),
  };
}

function jsonOf(root: Json, holder: unknown): Json {
  return object(object(resolve(root, holder)["content"])["application/json"]);
}

function exampleOf(content: Json): string | undefined {
  const first = object(Object.values(object(content["examples"]))[0])["value"] ?? content["example"];
  return first === undefined ? undefined : JSON.stringify(first, null, 2);
}

function members(root: Json, schema: unknown, depth: number): Member[] {
  const shape = shapeOf(root, schema);
  if (depth >= deepest) {
    return [];
  }
  if (shape["type"] === "array") {
    return members(root, shape["items"], depth);
  }
  const required = list(shape["required"]);
  return Object.entries(object(shape["properties"])).flatMap(([name, property]) => [
    {
      name, depth, required: required.includes(name),
      type: typeName(root, property),
      text: limited(shapeOf(root, property), text(object(property)["description"])),
    },
    ...members(root, property, depth + 1),
  ]);
}

/** A schema behind its references and, of "this or null", this. */
function shapeOf(root: Json, schema: unknown): Json {
  const resolved = resolve(root, schema);
  for (const word of ["anyOf", "allOf", "oneOf"]) {
    const chosen = list(resolved[word]).map((one) => resolve(root, one)).find((one) => one["type"] !== "null");
    if (chosen !== undefined) {
      return { ...chosen, ...resolved };
    }
  }
  return resolved;
}

function typeName(root: Json, schema: unknown): string {
  const shape = shapeOf(root, schema);
  const nullable = list(object(schema)["anyOf"]).some((one) => object(one)["type"] === "null");
  const types = Array.isArray(shape["type"]) ? shape["type"].map(text) : [text(shape["type"])];
  const named = types.filter((type) => type !== "").map((type) =>
    type === "array" ? `array of ${typeName(root, shape["items"])}` : type);
  return [...named, ...(nullable ? ["null"] : [])].join(" or ");
}

function limited(shape: Json, description: string): string {
  const said = description === "" ? text(shape["description"]) : description;
  const values = shape["const"] !== undefined ? [shape["const"]] : list(shape["enum"]);
  const parts = [
    values.length === 0 ? "" : `${values.length === 1 ? "Always" : "One of"} ${values.map((value) => `\`${String(value)}\``).join(", ")}.`,
    between(shape["minimum"], shape["maximum"], ""),
    between(shape["minLength"], shape["maxLength"], " characters"),
    between(shape["minItems"], shape["maxItems"], " items"),
    shape["default"] === undefined ? "" : `Default \`${String(shape["default"])}\`.`,
  ];
  return [said, ...parts].filter((part) => part !== "").join(" ");
}

function between(least: unknown, most: unknown, unit: string): string {
  if (least !== undefined && most !== undefined) {
    return `${String(least)} to ${String(most)}${unit}.`;
  }
  return least !== undefined ? `At least ${String(least)}${unit}.` : most !== undefined ? `At most ${String(most)}${unit}.` : "";
}

/** Follows `$ref`; what leads nowhere is empty. */
function resolve(root: Json, node: unknown, steps = 8): Json {
  const here = object(node);
  const target = here["$ref"];
  if (typeof target !== "string" || !target.startsWith("#/") || steps === 0) {
    return here;
  }
  const found = target.slice(2).split("/").reduce<unknown>((at, name) => object(at)[name], root);
  return resolve(root, found, steps - 1);
}

function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Json : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
