// The API as it describes itself at /api/v1/openapi.json, to be read and to be tried.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiFailure } from "../api/failure";
import { AttemptForm, type Sender, SenderCard } from "../components/attempt";
import { Badge, Card, Empty, PageHead, TableFrame } from "../components/basics";
import { apiBase, CodeBlock } from "../components/code";
import { Loaded } from "../components/states";
import { type Member, type Operation, type Parameter, readDescription, type Reference as Shown, type Reply } from "../lib/openapi";
import { decoded } from "../lib/path";
import { paragraphs, spans, type Span } from "../lib/prose";
import { useLoader } from "../state/loader";

async function load(signal: AbortSignal): Promise<Shown> {
  let response: Response;
  try {
    response = await fetch(`${apiBase}/openapi.json`, { signal, credentials: "omit" });
  } catch (thrown) {
    if (signal.aborted) {
      throw thrown;
    }
    throw new ApiFailure({ kind: "offline" });
  }
  if (!response.ok) {
    throw new ApiFailure({ kind: "broken", status: response.status, requestId: response.headers.get("X-Request-Id") ?? "" });
  }
  return readDescription(await response.json());
}

export function Reference() {
  const loader = useLoader(load, [], { still: true });  // It is the same until the service is another.
  return (
    <>
      <PageHead title="API reference" lead={<>Base address <code>{apiBase}</code></>}>
        <a class="button plain" href="/api/v1/openapi.json" target="_blank" rel="noreferrer">openapi.json</a>
      </PageHead>
      <Loaded loader={loader} what="The description" lines={10}>{(shown) => <Document shown={shown} />}</Loaded>
    </>
  );
}

function Document({ shown }: { shown: Shown }) {
  const sender = useSignal<Sender>({ as: "session", key: "" });
  // The place that the address names is there only now.
  useEffect(() => {
    const target = document.getElementById(decoded(window.location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }, []);
  if (shown.sections.length === 0) {
    return <Empty icon="reference" title="The description is empty" />;
  }
  return (
    <>
      <Card title={`${shown.title} ${shown.version}`}><Prose markdown={shown.text} /></Card>
      <SenderCard sender={sender} />
      {shown.sections.map((section) => (
        <Card key={section.name} title={section.name}>
          <Prose markdown={section.text} />
          {section.operations.map((operation) => <OperationDetails key={operation.id} shown={operation} sender={sender} />)}
        </Card>
      ))}
    </>
  );
}

function OperationDetails({ shown, sender }: { shown: Operation; sender: Signal<Sender> }) {
  const tried = useSignal(false);
  return (
    <details class="operation" id={shown.id}>
      <summary>
        <Badge look={shown.method === "GET" ? "" : "busy"}>{shown.method}</Badge> <code>{shown.path}</code>
        <span class="operation-summary">{shown.summary}</span>
      </summary>
      <Prose markdown={shown.text} />
      {shown.needsKey ? null : <p class="muted">Needs no key.</p>}
      {shown.parameters.length === 0 ? null : <Parameters of={shown.id} rows={shown.parameters} />}
      {shown.body.length === 0 ? null : <Members title="Body" of={shown.id} rows={shown.body} />}
      {shown.bodyExample === undefined ? null : <CodeBlock text={shown.bodyExample} label={`Example body of ${shown.id}`} />}
      <details class="try" onToggle={(event) => { tried.value ||= event.currentTarget.open; }}>
        <summary>Try it</summary>
        {tried.value ? <AttemptForm operation={shown} sender={sender} /> : null}
      </details>
      <h3>Answers</h3>
      {shown.replies.map((reply) => <ReplyDetails key={reply.status} of={shown.id} reply={reply} />)}
    </details>
  );
}

function Parameters({ of, rows }: { of: string; rows: readonly Parameter[] }) {
  return (
    <>
      <h3>Parameters</h3>
      <TableFrame label={`Parameters of ${of}`}>
        <table>
          <thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <th scope="row"><code>{row.name}</code>{row.required ? <Required /> : null}</th>
                <td>{row.place}</td><td>{row.type}</td><td><Spans of={spans(row.text)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}

function Members({ title, of, rows }: { title: string; of: string; rows: readonly Member[] }) {
  return (
    <>
      <h3>{title}</h3>
      <TableFrame label={`${title} of ${of}`}>
        <table>
          <thead><tr><th scope="col">Member</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                <th scope="row" class={`depth-${row.depth}`}><code>{row.name}</code>{row.required ? <Required /> : null}</th>
                <td>{row.type}</td><td><Spans of={spans(row.text)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}

function ReplyDetails({ of, reply }: { of: string; reply: Reply }) {
  return (
    <details class="reply">
      <summary><Badge look={reply.status.startsWith("2") ? "good" : ""}>{reply.status}</Badge> <Spans of={spans(reply.text)} /></summary>
      {reply.members.length === 0 ? null : <Members title="Members" of={`${of}, ${reply.status}`} rows={reply.members} />}
      {reply.example === undefined ? null : <CodeBlock text={reply.example} label={`Example of ${of}, ${reply.status}`} />}
    </details>
  );
}

function Required() {
  return <span class="required"> required</span>;
}

function Prose({ markdown }: { markdown: string }) {
  return <>{paragraphs(markdown).map((paragraph, index) => <p key={index} class="prose"><Spans of={paragraph} /></p>)}</>;
}

function Spans({ of }: { of: readonly Span[] }) {
  return (
    <>
      {of.map((span) => span.kind === "code" ? <code>{span.text}</code> : span.kind === "strong" ? <strong>{span.text}</strong> : span.text)}
    </>
  );
}
