import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { account, catalogue, generations } from "../api/calls";
import { isCode, type Failure } from "../api/failure";
import { type Account, isOpen, type Model, type OutputFormat, type Pricing, type Voice } from "../api/types";
import { Button, Card, Empty, PageHead } from "../components/basics";
import { CopyAs } from "../components/code";
import { SelectField, TextField, RangeField, Field } from "../components/fields";
import { Icon } from "../components/icons";
import { Outcome, Progress, StatusLine } from "../components/outcome";
import { FailureNotice, Loaded, Notice } from "../components/states";
import { PriceEstimate } from "../components/estimate";
import { VoiceCards } from "../components/voices";
import { compare, grouped } from "../lib/decimal";
import { creditsCap, type Draft, type DraftProblems, problemsOf, ranges, requestOf } from "../lib/draft";
import { integer } from "../lib/exact_json";
import { pathOf } from "../lib/path";
import { codePoints } from "../lib/text";
import { waiting } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { useSecondsUntil } from "../state/clock";
import { useLoader } from "../state/loader";
import { modifier } from "../state/shortcuts";
import { clearRun, draft, isUnderWay, mayBeAccepted, run, submit, updateRun } from "../state/playground";

interface Catalogue { voices: Voice[]; model: Model; pricing: Pricing }

async function loadCatalogue(signal: AbortSignal): Promise<Catalogue> {
  const [voices, models, pricing] = await Promise.all(
    [catalogue.voices(signal), catalogue.models(signal), catalogue.pricing(signal)]);
  const model = models.data[0];
  if (model === undefined) {
    throw new Error("the catalogue has no model");
  }
  return { voices: voices.data, model, pricing };
}

export function Playground() {
  const loader = useLoader(loadCatalogue);
  return (
    <>
      <PageHead title="Playground" lead="Write what should be heard. You see the price before and after." />
      <Loaded loader={loader} what="The catalogue" lines={8}>{(known) => <Bench known={known} />}</Loaded>
    </>
  );
}

function change(changes: Partial<Draft>): void {
  draft.value = { ...draft.peek(), ...changes };
}

function Bench({ known }: { known: Catalogue }) {
  const balance = useLoader((signal) => account.show(signal));
  const tried = useSignal(false);
  const problems = useComputed(() => problemsOf(draft.value, integer(known.model.prompt_max_characters)));
  const body = useComputed(() => requestOf(draft.value, known.model.id));
  const under = isUnderWay(run.value);
  const wait = useSecondsUntil(run.value?.allowedAt);

  const waited = useRef(false);
  useEffect(() => {
    if (waited.current && wait === 0 && run.peek()?.refused !== undefined) {
      announce("The wait is over.");
    }
    waited.current = wait > 0;
  }, [wait > 0]);

  // What is available changes when something is reserved and when it ends.
  const phase = run.value?.generation?.status;
  useEffect(() => {
    if (phase !== undefined) {
      void balance.reload();
    }
  }, [phase]);

  const send = () => {
    tried.value = true;
    if (Object.keys(problems.peek()).length === 0) {
      submit(body.peek());
      // On a phone it is below the form.
      document.getElementById("result")?.scrollIntoView({ block: "nearest" });
    } else {
      // The first field that is wrong, once its message is there.
      window.setTimeout(() => document.querySelector<HTMLElement>("#main [aria-invalid]")?.focus(), 0);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send();
    } else if (event.key === "Enter" && event.target instanceof HTMLInputElement) {
      event.preventDefault();  // Enter in a field is no wish to spend credits.
    }
  };
  return (
    <div class="bench" onKeyDown={onKeyDown}>
      <form
        class="stack" noValidate aria-label="Generation"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <DraftForm known={known} problems={shownProblems(problems.value, tried.value)} />
        <div class="submit-bar">
          <PriceEstimate body={body.value} ready={Object.keys(problems.value).length === 0} />
          <Balance account={balance.data.value} pricing={known.pricing} />
          {/* Its name stays while the seconds go: it may have the focus. */}
          <Button type="submit" look="primary" busy={under || wait > 0} aria-label={!under && wait > 0 ? "Wait" : undefined}>
            {under ? "Under way" : wait > 0 ? `Wait ${waiting(wait)}` : "Generate"}
          </Button>
          <span class="hint submit-keys"><kbd>{modifier}</kbd> <kbd>Enter</kbd></span>
        </div>
      </form>
      <div class="stack" id="result">
        <Result balance={balance.data.value} pricing={known.pricing} />
        <Card title="In a program"><CopyAs body={body.value} /></Card>
      </div>
    </div>
  );
}

/** Nobody is told off for what they have not written yet. */
function shownProblems(problems: DraftProblems, tried: boolean): DraftProblems {
  const { prompt, ...others } = problems;
  return prompt === undefined || (!tried && draft.value.prompt === "") ? others : problems;
}

function DraftForm({ known, problems }: { known: Catalogue; problems: DraftProblems }) {
  const now = draft.value;
  return (
    <>
      <Prompt limit={integer(known.model.prompt_max_characters)} problem={problems.prompt} />
      <VoiceCards voices={known.voices} chosen={now.voice} onChoose={(voice) => change({ voice })} />
      <Card title="Sound">
        <div class="grid-2">
          <SelectField
            label="Format" value={now.format} onValue={(format) => change({ format })}
            options={known.model.output_formats.map((format) => [format, formatNames[format]] as const)}
          />
          <SelectField
            label="Sample rate" value={now.rate} onValue={(rate) => change({ rate })}
            options={known.model.sample_rates.map((rate) => [rate as string, `${grouped(rate)} Hz`] as const)}
          />
          {(["speed", "volume", "pitch"] as const).map((name) => (
            <RangeField
              key={name} label={rangeNames[name]} {...ranges[name]} value={now[name]} problem={problems[name]}
              onValue={(value) => change({ [name]: value })}
            />
          ))}
          <TextField
            label="Spend at most" optional inputMode="decimal" autoComplete="off" value={now.maxCredits} problem={problems.maxCredits}
            placeholder={`${creditsCap.max} credits`} hint="The audio is cut at the length that so many credits pay for."
            onValue={(maxCredits) => change({ maxCredits: maxCredits.trim() })}
          />
        </div>
      </Card>
      <References problem={problems.imageUrl} />
    </>
  );
}

const formatNames: Record<OutputFormat, string> = { mp3: "MP3", wav: "WAV", pcm: "PCM, raw samples", ogg_opus: "Ogg Opus" };
const rangeNames = { speed: "Speed (times)", volume: "Volume (times)", pitch: "Pitch (semitones)" } as const;

function Prompt({ limit, problem }: { limit: number; problem: string | undefined }) {
  const length = codePoints(draft.value.prompt);
  return (
    <Field label="Prompt" problem={problem} hint={<span class={length > limit ? "over" : ""}>{grouped(String(length) as never)} of {grouped(String(limit) as never)} characters</span>}>
      {(described) => (
        <textarea
          {...described} dir="auto" rows={5} value={draft.value.prompt} spellcheck
          placeholder="Good morning. The train to the coast leaves in ten minutes."
          onInput={(event) => change({ prompt: event.currentTarget.value })}
        />
      )}
    </Field>
  );
}

function References({ problem }: { problem: string | undefined }) {
  const now = draft.value;
  // As the page begins: afterwards it is the reader's, and does not close under what is being cleared.
  const used = useMemo(() => now.imageUrl !== "" || now.audioReferences.some((url) => url !== ""), []);
  return (
    <details class="card more" open={used}>
      <summary>References <span class="optional">optional</span></summary>
      <p class="hint">Public addresses of up to three sounds to take after, or of one image.</p>
      {now.audioReferences.map((url, index) => (
        <TextField
          key={index} label={`Sound ${index + 1}`} type="url" inputMode="url" autoComplete="off" value={url}
          onValue={(value) => change({ audioReferences: now.audioReferences.map((old, at) => (at === index ? value : old)) })}
        />
      ))}
      <TextField
        label="Image" type="url" inputMode="url" autoComplete="off" value={now.imageUrl} problem={problem}
        onValue={(imageUrl) => change({ imageUrl })}
      />
    </details>
  );
}

function Balance({ account: shown, pricing }: { account: Account | undefined; pricing: Pricing }) {
  if (shown === undefined) {
    return null;
  }
  const { available } = shown.credits;
  const short = compare(available, pricing.reserved_credits) < 0 && !isUnderWay(run.value);
  return (
    <p class="balance-line">
      {short
        ? <><Icon name="warning" /> needs {grouped(pricing.reserved_credits)}, you have {grouped(available)}. <a href={pathOf({ name: "billing" })}>Credits</a></>
        : <span class="muted">{grouped(available)} credits available</span>}
    </p>
  );
}

function Result({ balance, pricing }: { balance: Account | undefined; pricing: Pricing }) {
  const now = run.value;
  const cancel = useAction();
  const wait = useSecondsUntil(now?.allowedAt);
  if (now === undefined) {
    return (
      <Card title="Result">
        <Empty icon="playground" title="Nothing to hear yet">
          The audio appears here with the exact price. {grouped(pricing.reserved_credits)} credits are held while it is made; what it does not use returns.
        </Empty>
      </Card>
    );
  }
  const { generation } = now;
  const open = generation !== undefined && isOpen(generation);
  const stop = () => cancel.run(async () => {
    if (generation !== undefined) {
      updateRun(await generations.cancel(generation.id));
    }
  });
  const refresh = async () => {
    if (generation !== undefined) {
      updateRun(await generations.get(generation.id));
    }
  };
  return (
    <Card title="Result">
      {now.refused !== undefined ? <Refused known={now.id !== undefined} unsure={mayBeAccepted(now)} failure={now.refused} balance={balance} pricing={pricing} /> : null}
      {generation === undefined ? null : <StatusLine generation={generation} />}
      {isUnderWay(now) ? <Progress generation={generation} since={now.startedAt} told={now.progress} trouble={now.trouble} /> : null}
      {generation === undefined ? null : <Outcome generation={generation} onStale={() => void cancel.run(refresh)} />}
      {cancel.failure.value === undefined ? null : <FailureNotice what="That did not work." failure={cancel.failure.value} />}
      {generation === undefined && now.trouble !== undefined
        ? <p class="hint">Should it have been accepted although no answer came, the history has it.</p> : null}
      <div class="actions">
        {open ? <Button icon="stop" busy={cancel.busy.value} onClick={() => void stop()}>Cancel</Button> : null}
        {generation === undefined ? null : <a class="button plain" href={pathOf({ name: "generation", id: generation.id })}>Details</a>}
        {generation === undefined && now.trouble !== undefined ? <Button icon="stop" onClick={clearRun}>Stop trying</Button> : null}
        {isUnderWay(now) ? null : <Button icon="repeat" busy={wait > 0} onClick={() => submit(now.body)}>{generation?.status === "succeeded" ? "Once more" : "Try again"}</Button>}
        {isUnderWay(now) ? null : <Button look="quiet" onClick={clearRun}>Clear</Button>}
      </div>
    </Card>
  );
}

function Refused({ known, unsure, failure, balance, pricing }: {
  known: boolean; unsure: boolean; failure: Failure; balance: Account | undefined; pricing: Pricing;
}) {
  if (isCode(failure, "insufficient_credits")) {
    return (
      <Notice look="bad">
        <p>
          <strong>Not enough credits:</strong> needs {grouped(pricing.reserved_credits)}
          {balance === undefined ? "" : `, you have ${grouped(balance.credits.available)}`}. Nothing was charged.
        </p>
        <p><a href={pathOf({ name: "billing" })}>How to get credits</a></p>
      </Notice>
    );
  }
  const what = known ? "It cannot be followed any more."
    : unsure ? "It may have been accepted before, although no answer came. Trying again does not charge it twice."
    : "It was not accepted; nothing was charged.";
  return <FailureNotice what={what} failure={failure} />;
}
