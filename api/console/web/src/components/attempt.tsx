// A form for an operation of the API, made of its description, and what comes of sending it.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Answered, send } from "../api/attempt";
import { type Attempt, attemptOf, fieldName, firstValues, indented, isDestructive, isHeaderText, isOfItsKey } from "../lib/attempt";
import type { Operation, Parameter } from "../lib/openapi";
import { plural } from "../lib/text";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { Badge, Button, Card, Choice, TableFrame } from "./basics";
import { CodeBlock } from "./code";
import { Dialog } from "./dialog";
import { Field, SelectField, TextField } from "./fields";
import { FailureNotice } from "./states";

/** As whom requests are sent. The key is in this memory alone, and goes with the page. */
export interface Sender { as: "session" | "key"; key: string }

export function SenderCard({ sender }: { sender: Signal<Sender> }) {
  const { as, key } = sender.value;
  return (
    <Card title="Try it here">
      <p>Each operation below has a form. Requests are real: what they create costs credits, what they delete is gone.</p>
      <Choice label="Send as" value={as} options={[["session", "This session"], ["key", "An API key"]]} onChange={(chosen) => { sender.value = { as: chosen, key: "" }; }} />
      {as === "session" ? null : (
        <TextField
          label="API key" type="password" autoComplete="off" value={key} onValue={(typed) => { sender.value = { as, key: typed }; }}
          hint="It is kept nowhere, and forgotten when you leave this page."
        />
      )}
    </Card>
  );
}

function keyProblem(operation: Operation, key: string | undefined): Record<string, string> {
  if (isOfItsKey(operation) && (key === undefined || key === "")) {
    return { key: "It is about the key that it is sent with: paste one above." };
  }
  if (key === "") {
    return { key: "Paste a key above, or send as this session." };
  }
  return key !== undefined && !isHeaderText(key) ? { key: "A key has letters, digits and signs of ASCII only: copy the whole of it, as it was shown once." } : {};
}

export function AttemptForm({ operation, sender }: { operation: Operation; sender: Signal<Sender> }) {
  const values = useSignal(firstValues(operation, () => crypto.randomUUID()));
  const body = useSignal(operation.bodyExample ?? "");
  const problems = useSignal<Record<string, string>>({});
  const asking = useSignal<Attempt | undefined>(undefined);
  const answered = useSignal<Answered | undefined>(undefined);
  const action = useAction();
  const running = useRef(new AbortController());
  useEffect(() => () => running.current.abort(), []);
  const key = sender.value.as === "session" ? undefined : sender.value.key.trim();

  const carryOut = (attempt: Attempt) => action.run(async () => {
    asking.value = undefined;
    answered.value = undefined;
    running.current = new AbortController();
    await send(attempt, key, running.current.signal, (part) => { answered.value = part; });
    const got = answered.peek();
    if (got?.over === true) {
      announce(`Answered ${got.status} in ${got.milliseconds} ms`);
    }
  });
  const submit = () => {
    const attempt = attemptOf(operation, values.peek(), body.peek());
    const wrong: Record<string, string> = "problems" in attempt ? attempt.problems : keyProblem(operation, key);
    problems.value = wrong;
    if ("problems" in attempt || Object.keys(wrong).length > 0) {
      return;
    }
    if (isDestructive(operation)) {
      asking.value = attempt;
    } else {
      void carryOut(attempt);
    }
  };
  const field = (parameter: Parameter) => (
    <ParameterField
      key={fieldName(parameter)} parameter={parameter} value={values.value[fieldName(parameter)] ?? ""} problem={problems.value[fieldName(parameter)]}
      onValue={(value) => { values.value = { ...values.peek(), [fieldName(parameter)]: value }; }}
    />
  );
  const required = operation.parameters.filter((parameter) => parameter.required || parameter.name === "Idempotency-Key");
  const optional = operation.parameters.filter((parameter) => !required.includes(parameter));
  return (
    <form class="stack" noValidate aria-label={`Try ${operation.id}`} onSubmit={(event) => { event.preventDefault(); submit(); }}>
      {required.length === 0 ? null : <div class="grid-2">{required.map(field)}</div>}
      {optional.length === 0 ? null : (
        <details class="more">
          <summary>{plural(optional.length, "optional parameter")}</summary>
          <div class="grid-2">{optional.map(field)}</div>
        </details>
      )}
      {operation.body.length === 0 ? null : (
        <Field label="Body, JSON" problem={problems.value["body"]}>
          {(described) => (
            <textarea
              {...described} class="mono" rows={Math.min(12, body.value.split("\n").length + 1)} spellcheck={false} value={body.value}
              onInput={(event) => { body.value = event.currentTarget.value; }}
            />
          )}
        </Field>
      )}
      {problems.value["key"] === undefined ? null : <p class="problem" role="alert">{problems.value["key"]}</p>}
      {action.failure.value === undefined ? null : <FailureNotice what="It could not be sent." failure={action.failure.value} />}
      <div class="actions">
        <Button type="submit" look="primary" busy={action.busy.value}>Send</Button>
        {action.busy.value ? <Button icon="stop" onClick={() => running.current.abort()}>Stop</Button> : null}
        <span class="hint">{key === undefined ? "As this session." : "With the key."}</span>
      </div>
      {answered.value === undefined ? null : <Shown of={operation.id} answered={answered.value} />}
      {asking.value === undefined ? null : <Sure attempt={asking.value} onSend={carryOut} onClose={() => { asking.value = undefined; }} />}
    </form>
  );
}

function ParameterField({ parameter, value, problem, onValue }: {
  parameter: Parameter; value: string; problem: string | undefined; onValue: (value: string) => void;
}) {
  const { name, place, choices } = parameter;
  const hint = `${place}, ${parameter.type}`;
  if (choices.length > 0) {
    return <SelectField label={name} hint={hint} value={value} options={[["", "not sent"], ...choices.map((choice) => [choice, choice] as const)]} onValue={onValue} />;
  }
  return (
    <TextField
      label={name} hint={hint} autoComplete="off" value={value} problem={problem}
      {...(parameter.example === undefined ? {} : { placeholder: parameter.example })} onValue={onValue}
    />
  );
}

function Sure({ attempt, onSend, onClose }: { attempt: Attempt; onSend: (attempt: Attempt) => void; onClose: () => void }) {
  return (
    <Dialog title="Send it?" onClose={onClose}>
      <p><code>{attempt.method} {attempt.path}</code></p>
      <p>It cannot be taken back.</p>
      <div class="dialog-actions">
        <Button look="danger" onClick={() => onSend(attempt)}>Send</Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </Dialog>
  );
}

function Shown({ of, answered }: { of: string; answered: Answered }) {
  const { status, headers, text, audio, bytes, cut, milliseconds, over } = answered;
  return (
    <section class="answer" aria-label={`Answer to ${of}`}>
      <p class="status-line">
        <Badge look={status < 400 ? "good" : "bad"} icon={status < 400 ? "check" : "warning"}>{status}</Badge>
        <span>{milliseconds} ms{over ? "" : ", more may come"}</span>
        <span class="muted">{plural(bytes, "byte")}{cut ? "; the beginning is shown" : ""}</span>
      </p>
      <details class="more">
        <summary>{plural(headers.length, "header")}</summary>
        <TableFrame label={`Headers of the answer to ${of}`}>
          <table>
            <thead><tr><th scope="col">Header</th><th scope="col">Value</th></tr></thead>
            <tbody>{headers.map(([name, value]) => <tr key={name}><th scope="row"><code>{name}</code></th><td>{value}</td></tr>)}</tbody>
          </table>
        </TableFrame>
      </details>
      {audio === undefined ? null : <Heard audio={audio} />}
      {text === "" ? null : <CodeBlock text={cut ? text : indented(text)} label={`Body of the answer to ${of}`} />}
    </section>
  );
}

function Heard({ audio }: { audio: Blob }) {
  const url = useSignal<string | undefined>(undefined);
  useEffect(() => {
    const made = URL.createObjectURL(audio);
    url.value = made;
    return () => URL.revokeObjectURL(made);
  }, [audio]);
  return url.value === undefined ? null : <audio controls src={url.value} aria-label="Audio of the answer" />;
}
