// First run: a key, a request, a sound.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { account, catalogue, generations } from "../api/calls";
import { type Account, type ApiKeyWithSecret, type Generation, isOpen, type Pricing, type Progress as Told } from "../api/types";
import { Button, Card, CopyButton, PageHead } from "../components/basics";
import { apiBase, CodeBlock } from "../components/code";
import { makeKey } from "../components/create_key";
import { Outcome, Progress } from "../components/outcome";
import { FailureNotice, Loaded, Notice } from "../components/states";
import { grouped } from "../lib/decimal";
import type { RequestBody } from "../lib/draft";
import { firstRun } from "../lib/first_run";
import { pathOf } from "../lib/path";
import { ending } from "../lib/progress";
import { snippet } from "../lib/snippets";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { endFirstRun } from "../state/first_run";
import { follow } from "../state/follow";
import { useLoader } from "../state/loader";

const prompt = "Hello. This is the first sound of many.";
const lookEvery = 2000;

interface Known { model: string; owner: Account; pricing: Pricing }

async function load(signal: AbortSignal): Promise<Known> {
  const [models, owner, pricing] = await Promise.all([catalogue.models(signal), account.show(signal), catalogue.pricing(signal)]);
  return { model: models.data[0]?.id ?? "", owner, pricing };
}

export function Start() {
  // What somebody is in the middle of stays, though his credits are in use by then: the key is shown once.
  const loader = useLoader(load, [], { still: true });
  return (
    <>
      <PageHead title="From a key to a sound" lead="A key, a request, a sound. You may leave at any time; this page stays under Help." />
      <Loaded loader={loader} what="The catalogue" lines={6}>
        {({ model, owner, pricing }) => firstRun(owner, pricing) === "key"
          ? <Steps body={{ model, prompt }} />
          : <Elsewhere owner={owner} pricing={pricing} />}
      </Loaded>
    </>
  );
}

/** The steps could not be gone to their end: why, and what can. */
function Elsewhere({ owner, pricing }: { owner: Account; pricing: Pricing }) {
  const { available } = owner.credits;
  const access = owner.api_access ? null : <p>Keys of this account cannot create generations yet: that takes a paid plan or a purchase.</p>;
  if (firstRun(owner, pricing) === "playground") {
    return (
      <>
        <Notice look="warn">{access}<p>The playground works with the credits that you have.</p></Notice>
        <p>
          <a class="button primary" href={pathOf({ name: "playground" })}>Open the playground</a>{" "}
          <a class="button plain" href={pathOf({ name: "billing" })}>Billing</a>
        </p>
      </>
    );
  }
  return (
    <>
      <Notice look="warn">{access}<p>A generation needs {grouped(pricing.reserved_credits)} credits, you have {grouped(available)}.</p></Notice>
      <p><a class="button primary" href={pathOf({ name: "billing" })}>How to get credits</a></p>
    </>
  );
}

function Steps({ body }: { body: RequestBody }) {
  const key = useSignal<ApiKeyWithSecret | undefined>(undefined);
  const heard = useSignal(false);
  const end = () => {
    heard.value = true;
    endFirstRun();
  };
  return (
    <ol class="steps">
      <li><Card title="Make a key"><MakeKey made={key.value} onMade={(made) => { key.value = made; }} /></Card></li>
      <li><Card title="Send a request"><Request body={body} secret={key.value} /></Card></li>
      <li>
        <Card title="Hear the result">
          {key.value === undefined
            ? <p class="muted">It plays here as soon as the request has arrived.</p>
            : <Listen onHeard={end} />}
          {heard.value ? <p><a class="button primary" href={pathOf({ name: "playground" })}>On to the playground</a></p> : null}
        </Card>
      </li>
    </ol>
  );
}

function MakeKey({ made, onMade }: { made: ApiKeyWithSecret | undefined; onMade: (key: ApiKeyWithSecret) => void }) {
  const action = useAction();
  const saved = useSignal(false);
  const make = () => action.run(async () => {
    const key = await makeKey({ name: "first key", scopes: ["generate"] });
    if (key !== undefined) {
      onMade(key);
      announce("The key was made. It is shown once.");
    }
  });
  if (made !== undefined && saved.value) {
    return <PutAway prefix={made.prefix} />;
  }
  if (made !== undefined) {
    return (
      <>
        <Notice look="warn"><p><strong>It is shown this once.</strong> Keep it where secrets are kept.</p></Notice>
        <pre class="code secret" tabIndex={0} role="region" aria-label="The key"><code>{made.key}</code></pre>
        <p><CopyButton text={made.key} label="Copy the key" />{" "}<Button onClick={() => { saved.value = true; }}>I saved it</Button></p>
      </>
    );
  }
  return (
    <>
      <p>Programs say with it whose credits they spend.</p>
      {action.failure.value === undefined ? null : <FailureNotice what="The key was not made." failure={action.failure.value} />}
      <Button look="primary" icon="keys" busy={action.busy.value} onClick={() => void make()}>Make a key</Button>
    </>
  );
}

/** Takes the focus once, from the button that has gone. */
function PutAway({ prefix }: { prefix: string }) {
  const said = useRef<HTMLParagraphElement>(null);
  useEffect(() => said.current?.focus(), []);
  return (
    <p ref={said} tabIndex={-1}>
      <code>{prefix}…</code> is yours. The request below can still be copied with it until you leave this page.
    </p>
  );
}

/** What is shown masks the key; what is copied has it, so that it works as it is. */
function Request({ body, secret }: { body: RequestBody; secret: ApiKeyWithSecret | undefined }) {
  const masked = secret === undefined ? undefined : `${secret.prefix}…`;
  const intention = useMemo(() => crypto.randomUUID(), []);
  return (
    <>
      <p>In a terminal of your own:</p>
      <CodeBlock text={snippet("curl", apiBase, body, intention, masked)} label="The request" />
      {secret === undefined
        ? <p class="hint">Make the key first; then it is filled in.</p>
        : <CopyButton text={snippet("curl", apiBase, body, intention, secret.key)} label="Copy with the key" look="primary" />}
    </>
  );
}

/** Waits for the first generation from now on, whoever sends it, and plays it. */
function Listen({ onHeard }: { onHeard: () => void }) {
  const generation = useSignal<Generation | undefined>(undefined);
  const progress = useSignal<Told | undefined>(undefined);
  useEffect(() => {
    const waiting = new AbortController();
    const update = (next: Generation) => {
      generation.value = next;
      if (!isOpen(next)) {
        announce(ending(next));
      }
      if (next.status === "succeeded") {
        onHeard();
      }
    };
    void nextGeneration(waiting.signal).then((first) => {
      if (first !== undefined) {
        update(first);
        void follow(first.id, { update, progress: (told) => { progress.value = told; }, trouble: () => undefined }, waiting.signal);
      }
    });
    return () => waiting.abort();
  }, []);
  const found = generation.value;
  if (found === undefined) {
    return (
      <div class="progress">
        <progress aria-label="Waiting for your request" /><p>Waiting for your request</p>
        <p class="muted">One that is refused does not come here: your terminal shows why.</p>
      </div>
    );
  }
  return (
    <>
      {isOpen(found) ? <Progress generation={found} since={Date.parse(found.created_at)} told={progress.value} trouble={undefined} /> : null}
      <Outcome generation={found} onStale={() => void generations.get(found.id).then((next) => { generation.value = next; }, () => undefined)} />
    </>
  );
}

/** The newest generation, or undefined when there is none. Trouble is waited out: nothing can be lost here. */
async function newest(signal: AbortSignal): Promise<Generation | undefined> {
  for (;;) {
    try {
      return (await generations.list({ limit: "1" }, signal)).data[0];
    } catch {
      if (signal.aborted) {
        return undefined;
      }
      await pause();
    }
  }
}

/** The first that was not there before. */
async function nextGeneration(signal: AbortSignal): Promise<Generation | undefined> {
  const before = await newest(signal);
  while (!signal.aborted) {
    await pause();
    const now = await newest(signal);
    if (now !== undefined && now.id !== before?.id) {
      return now;
    }
  }
  return undefined;
}

function pause(): Promise<void> {
  return new Promise((resolve) => window.setTimeout(resolve, lookEvery));
}
