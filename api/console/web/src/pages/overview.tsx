import { useSignal } from "@preact/signals";
import { account, generations, usage } from "../api/calls";
import type { Account, Usage } from "../api/types";
import { CreditsChart } from "../components/chart";
import { Button, Card, Empty, Figure, PageHead } from "../components/basics";
import { GenerationRow } from "../components/generation_list";
import { Loaded } from "../components/states";
import { daysLeft, grouped } from "../lib/decimal";
import { pathOf } from "../lib/path";
import { plural } from "../lib/text";
import { aDay, lastBuckets, rfc3339 } from "../lib/time";
import { series } from "../lib/usage";
import { endFirstRun, isFirstRunOver } from "../state/first_run";
import { useLoader } from "../state/loader";

const span = 30;
/** Days, beyond which a number of them tells nobody anything. */
const foreseeable = 3652n;

/** Of the days up to the one in which it is asked: whoever comes back to a page left open overnight sees the new day. */
async function lastDays(signal: AbortSignal): Promise<{ starts: string[]; shown: Usage }> {
  const starts = lastBuckets("day", span, Date.now());
  const from = starts[0] ?? rfc3339(Date.now());
  const to = rfc3339(Date.parse(from) + span * aDay);
  return { starts, shown: await usage.show({ from, to, bucket: "day", group_by: "none" }, signal) };
}

export function Overview() {
  const balance = useLoader((signal) => account.show(signal));
  const month = useLoader(lastDays);
  const latest = useLoader((signal) => generations.list({ limit: "5" }, signal));
  return (
    <>
      <PageHead title="Overview"><a class="button primary" href={pathOf({ name: "playground" })}>New generation</a></PageHead>
      <FirstRunCard />
      <Card title="Balance">
        <Loaded loader={balance} what="The balance" lines={2} room="figures">
          {(shown) => <BalanceFigures shown={shown} month={month.data.value?.shown} />}
        </Loaded>
      </Card>
      <Card title={`Credits, last ${span} days`} actions={<a href={pathOf({ name: "usage" })}>Usage</a>}>
        <Loaded loader={month} what="Usage" lines={5} room="chart">
          {({ starts, shown }) => (
            <CreditsChart
              title="Credits a day (UTC)" bucket="day"
              points={series(starts, shown.data, "day", shown.complete_to)}
            />
          )}
        </Loaded>
      </Card>
      <Card title="Latest generations" actions={<a href={pathOf({ name: "history" })}>History</a>}>
        <Loaded loader={latest} what="The history" lines={5}>
          {(list) => list.data.length === 0
            ? (
              <Empty icon="playground" title="Nothing yet" action={<a class="button plain" href={pathOf({ name: "playground" })}>Open the playground</a>}>
                What you generate, here or by API, is listed with its price.
              </Empty>
            )
            : <ul class="rows">{list.data.map((item) => <GenerationRow key={item.id} generation={item} />)}</ul>}
        </Loaded>
      </Card>
    </>
  );
}

function BalanceFigures({ shown, month }: { shown: Account; month: Usage | undefined }) {
  const left = month === undefined ? undefined : daysLeft(shown.credits.available, month.totals.credits, span);
  return (
    <dl class="figures">
      <Figure label="Available" value={grouped(shown.credits.available)} unit="credits" />
      <Figure label="Reserved" value={grouped(shown.credits.reserved)} unit="credits" note="held by what is being made" />
      <Figure
        label="Lasts" value={month === undefined ? "…" : left === undefined ? "—" : left > foreseeable ? "Over 10 years" : plural(left, "day")}
        note={left === undefined ? "nothing spent in 30 days" : "at the pace of the last 30 days"}
      />
    </dl>
  );
}

function FirstRunCard() {
  const over = useSignal(isFirstRunOver());
  if (over.value) {
    return null;
  }
  const skip = () => {
    over.value = true;
    endFirstRun();
  };
  return (
    <Card title="From a key to a sound" class="first-run">
      <p>Make an API key, send one request with curl, hear the result. It takes two minutes.</p>
      <div class="actions">
        <a class="button primary" href={pathOf({ name: "start" })}>Start</a>
        <Button look="quiet" onClick={skip}>Skip</Button>
        <span class="hint">You find it again under Help.</span>
      </div>
    </Card>
  );
}
