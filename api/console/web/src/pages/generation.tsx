import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { generations } from "../api/calls";
import { isCode, type Failure } from "../api/failure";
import { type Generation as Shown, isOpen } from "../api/types";
import { Button, Card, CopyButton, Empty, Facts, PageHead, Time } from "../components/basics";
import { CopyAs } from "../components/code";
import { DeleteGeneration } from "../components/delete_generation";
import { Outcome, Progress } from "../components/outcome";
import { StatusBadge } from "../components/basics";
import { FailureNotice, Loaded } from "../components/states";
import { grouped, signed } from "../lib/decimal";
import type { RequestBody } from "../lib/draft";
import { pathOf } from "../lib/path";
import { receiptLines, receiptSum } from "../lib/receipt";
import { absolute, duration, rfc3339 } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { follow } from "../state/follow";
import { useLoader } from "../state/loader";
import { fillDraft, settingsOf, updateRun } from "../state/playground";
import { navigate } from "../state/router";

/**
 * The text is told by the list only. Its pages of the one millisecond in which the generation was created
 * are few, however many were created with it.
 */
async function promptOf(generation: Shown, signal: AbortSignal): Promise<string | null> {
  const created = Date.parse(generation.created_at);
  let cursor: string | undefined;
  do {
    const list = await generations.list(
      { created_after: rfc3339(created), created_before: rfc3339(created + 1), limit: "100", cursor }, signal);
    const found = list.data.find((item) => item.id === generation.id);
    if (found !== undefined) {
      return found.prompt;
    }
    cursor = list.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return null;
}

export function Generation({ id }: { id: string }) {
  const loader = useLoader((signal) => generations.get(id, signal));
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
  const trouble = useSignal<Failure | undefined>(undefined);
  const prompt = useLoader((signal) => promptOf(generation, signal), [generation.output?.deleted_at]);
  const open = isOpen(generation);
  useEffect(() => {
    if (!open) {
      return;
    }
    const following = new AbortController();
    void follow(generation.id, { update: onChange, trouble: (failure) => { trouble.value = failure; } }, following.signal);
    return () => following.abort();
  }, [generation.id, open]);
  const settings = settingsOf(generation.id);
  return (
    <div class="bench">
      <div class="stack">
        <Card title="Result">
          {open ? <Progress generation={generation} since={Date.parse(generation.created_at)} trouble={trouble.value} /> : null}
          <Outcome generation={generation} onStale={() => void generations.get(generation.id).then(onChange, () => undefined)} />
          <Actions generation={generation} prompt={prompt.data.value} settings={settings} onChange={onChange} onDeleted={() => void prompt.reload()} />
        </Card>
        <Card title="Prompt">
          <Loaded loader={prompt} what="The prompt" lines={2}>
            {(text) => text === null ? <p class="muted">The text was deleted.</p> : <blockquote class="prompt">{text}</blockquote>}
          </Loaded>
        </Card>
        <Receipt generation={generation} />
      </div>
      <div class="stack">
        <Card title="Facts"><GenerationFacts generation={generation} /></Card>
        {settings === undefined ? null : <Card title="In a program"><CopyAs body={settings} /></Card>}
      </div>
    </div>
  );
}

function GenerationFacts({ generation }: { generation: Shown }) {
  const { output } = generation;
  const settings = settingsOf(generation.id);
  const optional = (label: string, value: string | number | undefined) =>
    value === undefined ? undefined : [label, String(value)] as const;
  return (
    <Facts items={[
      ["Status", <StatusBadge status={generation.status} />],
      ["Id", <span class="with-copy"><code class="id">{generation.id}</code><CopyButton text={generation.id} look="quiet" /></span>],
      ["Created", <><Time at={generation.created_at} /> <span class="muted">{absolute(generation.created_at)}</span></>],
      ["Changed", <Time at={generation.updated_at} />],
      ["Model", generation.model],
      output === null ? undefined : ["Length", duration(output.duration_seconds)],
      output === null ? undefined : ["Format", output.format],
      optional("Voice", settings?.voice),
      optional("Sample rate", settings?.sample_rate),
      optional("Speed", settings?.speed),
      optional("Volume", settings?.volume),
      optional("Pitch", settings?.pitch),
      optional("Spend at most", settings?.max_credits),
    ]} />
  );
}

function Actions({ generation, prompt, settings, onChange, onDeleted }: {
  generation: Shown; prompt: string | null | undefined; settings: RequestBody | undefined;
  onChange: (next: Shown) => void; onDeleted: () => void;
}) {
  const action = useAction();
  const deleting = useSignal(false);
  const open = isOpen(generation);
  const cancel = () => action.run(async () => {
    onChange(await generations.cancel(generation.id));
    announce("Canceled. The reservation was returned.");
  });
  const again = () => {
    fillDraft(prompt ?? "", settings);
    navigate(pathOf({ name: "playground" }));
  };
  const deleted = async () => {
    deleting.value = false;
    onChange(await generations.get(generation.id));
    onDeleted();
  };
  const gone = prompt === null;
  return (
    <>
      {action.failure.value === undefined ? null : <FailureNotice what="It was not canceled." failure={action.failure.value} />}
      <div class="actions">
        {open ? <Button icon="stop" busy={action.busy.value} onClick={() => void cancel()}>Cancel</Button> : null}
        {typeof prompt === "string" ? <Button icon="repeat" onClick={again}>Use in the playground</Button> : null}
        {open || gone ? null : <Button icon="bin" onClick={() => { deleting.value = true; }}>Delete</Button>}
      </div>
      {deleting.value
        ? (
          <DeleteGeneration
            generation={{ ...generation, prompt: prompt ?? null }} onClose={() => { deleting.value = false; }}
            onDeleted={() => void action.run(deleted)}
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
