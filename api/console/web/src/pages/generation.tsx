import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { generations } from "../api/calls";
import { isCode } from "../api/failure";
import { type AskedFor, type Details as Known, type Generation as Shown, isOpen, type Progress, type TimelineItem } from "../api/types";
import { Button, Card, CopyButton, Empty, Facts, PageHead, StatusBadge, Time } from "../components/basics";
import { CopyAs } from "../components/code";
import { DeleteGeneration } from "../components/delete_generation";
import { Outcome, Progress as ShownProgress } from "../components/outcome";
import { FailureNotice, Loaded } from "../components/states";
import { compare, type Decimal, grouped, signed } from "../lib/decimal";
import { creditsCap, emptyDraft, type RequestBody, requestFrom } from "../lib/draft";
import { integer } from "../lib/exact_json";
import { pathOf } from "../lib/path";
import { ending, happened } from "../lib/progress";
import { receiptLines, receiptSum } from "../lib/receipt";
import { plural } from "../lib/text";
import { absolute, clock, duration } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { follow, type Trouble } from "../state/follow";
import { useLoader } from "../state/loader";
import { fillDraft, isUnderWay, run, settingsOf, submit, updateRun } from "../state/playground";
import { navigate } from "../state/router";

export function Generation({ id }: { id: string }) {
  // One that is under way is followed; of one that is finished the address of the file would be another, and what plays would stop.
  const loader = useLoader((signal) => generations.get(id, signal), [], { still: true });
  const failure = loader.failure.value;
  const notHere = isCode(failure, "task_not_found") || isCode(failure, "not_found");
  return (
    <>
      <PageHead title="Generation"><a class="button plain" href={pathOf({ name: "history" })}>History</a></PageHead>
      {notHere ? (
        <Empty icon="history" title="No such generation" action={<a class="button plain" href={pathOf({ name: "history" })}>To the history</a>}>
          It does not exist, or it is not yours.
        </Empty>
      ) : (
        <Loaded loader={loader} what="The generation" lines={6}>
          {(generation) => <Details generation={generation} onChange={(next) => { loader.set(next); updateRun(next); }} />}
        </Loaded>
      )}
    </>
  );
}

function Details({ generation, onChange }: { generation: Shown; onChange: (next: Shown) => void }) {
  const trouble = useSignal<Trouble | undefined>(undefined);
  const progress = useSignal<Progress | undefined>(undefined);
  // Asked for again whenever there is something new to tell.
  const details = useLoader((signal) => generations.details(generation.id, signal), [generation.updated_at, generation.output?.deleted_at]);
  const open = isOpen(generation);
  useEffect(() => {
    if (!open) {
      return;
    }
    const following = new AbortController();
    void follow(generation.id, {
      update: (next) => {
        onChange(next);
        if (!isOpen(next) && run.peek()?.id !== next.id) {  // The playground tells of its own.
          announce(ending(next));
        }
      },
      progress: (told) => { progress.value = told; },
      trouble: (now) => { trouble.value = now; },
    }, following.signal);
    return () => following.abort();
  }, [generation.id, open]);
  const known = details.data.value;
  const request = known?.request;
  const body = sameAgain(generation, request ?? undefined);
  return (
    <div class="bench">
      <div class="stack">
        <Card title="Result">
          {open ? <ShownProgress generation={generation} since={Date.parse(generation.created_at)} told={progress.value ?? known} trouble={trouble.value} /> : null}
          {open && known?.settled_by != null ? <p class="muted">Final by {absolute(known.settled_by)} at the latest, and refunded if nothing was delivered.</p> : null}
          <Outcome generation={generation} onStale={() => void generations.get(generation.id).then(onChange, () => undefined)} />
          <Actions generation={generation} request={request} body={body} onChange={onChange} onDeleted={() => void details.reload()} />
        </Card>
        <Card title="Prompt">
          <Loaded loader={details} what="What was asked for" lines={2}>
            {({ request: asked }) => asked === null ? <p class="muted">The text was deleted.</p> : <blockquote class="prompt" dir="auto">{asked.prompt}</blockquote>}
          </Loaded>
        </Card>
        <Receipt generation={generation} />
        {known === undefined ? null : <Card title="Timeline"><Timeline items={known.timeline} attempts={known.attempts} /></Card>}
      </div>
      <div class="stack">
        <Card title="Facts"><GenerationFacts generation={generation} details={known} /></Card>
        {body === undefined ? null : (
          <Card title="In a program">
            <CopyAs body={body.request} />
            {body.whole ? null : <p class="hint">The addresses of its references are told to nobody again; add them.</p>}
          </Card>
        )}
      </div>
    </div>
  );
}

/** The request again; `whole`: with its references, whose addresses only the tab knows that has sent them. */
interface Again { request: RequestBody; whole: boolean }

function sameAgain(generation: Shown, asked: AskedFor | undefined): Again | undefined {
  if (asked === undefined) {
    return undefined;
  }
  const sent = settingsOf(generation.id);
  return sent === undefined
    ? { request: requestFrom(asked, generation.model), whole: asked.references.length === 0 }
    : { request: sent, whole: true };
}

function GenerationFacts({ generation, details }: { generation: Shown; details: Known | undefined }) {
  const { output } = generation;
  const asked = details?.request ?? undefined;
  return (
    <Facts items={[
      ["Status", <StatusBadge status={generation.status} />],
      ["Id", <span class="with-copy"><code class="id">{generation.id}</code><CopyButton text={generation.id} look="quiet" /></span>],
      ["Created", <><Time at={generation.created_at} /> <span class="muted">{absolute(generation.created_at)}</span></>],
      ["Changed", <Time at={generation.updated_at} />],
      details?.key_id == null ? undefined : ["By key", <code class="id">{details.key_id}</code>],
      ["Model", generation.model],
      output === null ? undefined : ["Length", duration(output.duration_seconds)],
      asked === undefined ? (output === null ? undefined : ["Format", output.format]) : ["Format", `${asked.output_format}, ${grouped(asked.sample_rate)} Hz`],
      ...(asked === undefined ? [] : settingsFacts(asked)),
    ]} />
  );
}

function settingsFacts(asked: AskedFor): (readonly [string, ComponentChildren] | undefined)[] {
  const changed = (label: string, value: Decimal, usual: string) => (compare(value, usual as Decimal) === 0 ? undefined : [label, grouped(value)] as const);
  const metadata = Object.entries(asked.metadata);
  return [
    ["Voice", asked.voice ?? "none named"],
    changed("Speed", asked.speed, emptyDraft.speed),
    changed("Volume", asked.volume, emptyDraft.volume),
    changed("Pitch, semitones", asked.pitch, emptyDraft.pitch),
    changed("Spend at most, credits", asked.max_credits, String(creditsCap.max)),
    asked.references.length === 0 ? undefined : ["References", asked.references.map((one) => one.kind).join(", ")],
    metadata.length === 0 ? undefined
      : ["Metadata", <ul class="metadata">{metadata.map(([name, value]) => <li key={name}><code>{name}</code> {value}</li>)}</ul>],
  ];
}

function Timeline({ items, attempts }: { items: readonly TimelineItem[]; attempts: Decimal }) {
  const told = items.filter((item) => item.type === "attempt").length;
  const missing = integer(attempts) - told;
  return (
    <>
      <ol class="timeline">
        {items.map((item, index) => (
          <li key={index}>
            <span class="timeline-what">{happened(item)}</span>
            <time class="muted" dateTime={item.at} title={absolute(item.at)}>{clock(Date.parse(item.at))}</time>
            {"message" in item && item.message !== null ? <span class="timeline-more">{item.message}</span> : null}
          </li>
        ))}
      </ol>
      {missing > 0 ? <p class="hint">{plural(missing, "earlier attempt")} not shown.</p> : null}
    </>
  );
}

/** `request`: null where it was deleted, undefined where it is not known yet. */
function Actions({ generation, request, body, onChange, onDeleted }: {
  generation: Shown; request: AskedFor | null | undefined; body: Again | undefined;
  onChange: (next: Shown) => void; onDeleted: () => void;
}) {
  const action = useAction();
  const rest = useAction();
  const deleting = useSignal(false);
  const open = isOpen(generation);
  const cancel = () => action.run(async () => {
    onChange(await generations.cancel(generation.id));
    announce("Canceled. The reservation was returned.");
  });
  const toPlayground = (sent: RequestBody) => {
    fillDraft(sent);
    navigate(pathOf({ name: "playground" }));
  };
  const retry = (sent: RequestBody) => {
    toPlayground(sent);
    submit(sent);
  };
  // It is deleted whatever comes of this.
  const showRest = () => rest.run(async () => onChange(await generations.get(generation.id)));
  const deleted = () => {
    deleting.value = false;
    onDeleted();
    void showRest();
  };
  const gone = request === null;
  const unfinished = generation.status === "failed" || generation.status === "canceled";
  const noRetry = !unfinished ? undefined
    : gone ? "It cannot be retried: what was asked for was deleted."
    : body !== undefined && !body.whole
      ? "It cannot be retried as it was: nobody is told the addresses of its references again. Use it in the playground and add them there."
    : undefined;
  return (
    <>
      {action.failure.value === undefined ? null : <FailureNotice what="It was not canceled." failure={action.failure.value} />}
      {rest.failure.value === undefined ? null : (
        <FailureNotice what="It was deleted. What is left of it could not be loaded." failure={rest.failure.value} onRetry={() => void showRest()} />
      )}
      <div class="actions">
        {open ? <Button icon="stop" busy={action.busy.value} onClick={() => void cancel()}>Cancel</Button> : null}
        {body !== undefined && body.whole && unfinished && !isUnderWay(run.value) ? <Button icon="repeat" onClick={() => retry(body.request)}>Retry with the same settings</Button> : null}
        {body === undefined ? null : <Button icon="pen" onClick={() => toPlayground(body.request)}>Use in the playground</Button>}
        {open || gone ? null : <Button icon="bin" onClick={() => { deleting.value = true; }}>Delete</Button>}
      </div>
      {noRetry === undefined ? null : <p class="hint">{noRetry}</p>}
      {deleting.value
        ? (
          <DeleteGeneration
            generation={{ ...generation, prompt: request?.prompt ?? null }} onClose={() => { deleting.value = false; }}
            onDeleted={deleted}
          />
        )
        : null}
    </>
  );
}

function Receipt({ generation }: { generation: Shown }) {
  const lines = receiptLines(generation.billing);
  return (
    <Card title="Receipt">
      {lines.length === 0
        ? <p>{grouped(generation.billing.reserved_credits)} credits are reserved. What is not used returns when it is finished.</p>
        : (
          <table class="receipt">
            <caption class="visually-hidden">Credits of this generation</caption>
            <tbody>
              {lines.map((line) => (
                <tr key={line.label}><th scope="row">{line.label}</th><td class="number">{signed(line.amount)}</td></tr>
              ))}
            </tbody>
            <tfoot><tr><th scope="row">Sum</th><td class="number">{signed(receiptSum(lines))}</td></tr></tfoot>
          </table>
        )}
    </Card>
  );
}
