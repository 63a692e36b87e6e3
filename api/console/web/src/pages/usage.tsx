import { keys, usage, type UsageQuestion } from "../api/calls";
import type { ApiKey, Usage as Answer } from "../api/types";
import { Button, Card, Choice, Empty, Figure, PageHead, TableFrame } from "../components/basics";
import { CreditsChart } from "../components/chart";
import { FailureNotice, Loaded } from "../components/states";
import { grouped } from "../lib/decimal";
import { oneOf } from "../lib/path";
import { absolute, bucketMilliseconds, duration, lastBuckets, rfc3339, type Bucket } from "../lib/time";
import { type Measure, measures, series, shares } from "../lib/usage";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { useLoader } from "../state/loader";
import { changeSearch, search } from "../state/router";

const spans = {
  day: [["30", "30 days"], ["7", "7 days"], ["90", "90 days"]],
  hour: [["24", "24 hours"], ["72", "3 days"], ["168", "7 days"]],
} as const;
const groups = ["none", "key", "voice"] as const;

interface View { bucket: Bucket; count: number; span: string; group: (typeof groups)[number] }

function viewOf(parameters: URLSearchParams): View {
  const bucket = oneOf<Bucket>(parameters.get("bucket"), ["day", "hour"]);
  const [first, ...rest] = spans[bucket].map(([value]) => value as string);
  const span = oneOf(parameters.get("span"), [first ?? "", ...rest]);
  return { bucket, span, count: Number(span), group: oneOf(parameters.get("by"), groups) };
}

/** The question of a view, and the buckets that its answer fills. */
function questionOf(view: View, now: number): { question: UsageQuestion; starts: string[] } {
  const starts = lastBuckets(view.bucket, view.count, now);
  const from = starts[0] ?? rfc3339(now);
  const to = rfc3339(Date.parse(from) + view.count * bucketMilliseconds[view.bucket]);
  return { starts, question: { from, to, bucket: view.bucket, group_by: view.group } };
}

export function Usage() {
  const view = viewOf(search.value);
  const address = `${view.bucket} ${view.span} ${view.group}`;
  const loader = useLoader(async (signal) => {
    const asked = questionOf(view, Date.now());
    const [answer, named] = await Promise.all([
      usage.show(asked.question, signal),
      view.group === "key" ? keys.list(signal) : undefined,
    ]);
    return { view, asked, answer, keys: named?.data ?? [] };
  }, [address]);
  return (
    <>
      <PageHead title="Usage" lead="What was generated and what it cost, by UTC day or hour.">
        <CsvButton view={view} />
      </PageHead>
      <div class="filters">
        <Choice label="By" value={view.bucket} options={[["day", "Day"], ["hour", "Hour"]]} onChange={(bucket) => changeSearch({ bucket, span: undefined })} />
        <Choice label="Span" value={view.span} options={spans[view.bucket]} onChange={(span) => changeSearch({ span })} />
        <Choice label="Group" value={view.group} options={[["none", "All"], ["key", "Key"], ["voice", "Voice"]]} onChange={(by) => changeSearch({ by: by === "none" ? undefined : by })} />
      </div>
      <Loaded loader={loader} what="Usage" lines={8}>
        {(shown) => (
          <>
            <Totals answer={shown.answer} />
            <Card title={`Credits by ${shown.view.bucket}`}>
              <CreditsChart
                title={`Credits by ${shown.view.bucket} (UTC)`} bucket={shown.view.bucket}
                points={series(shown.asked.starts, shown.answer.data, shown.view.bucket, shown.answer.complete_to)}
              />
              <p class="hint">Complete to {absolute(shown.answer.complete_to)}.</p>
            </Card>
            {shown.view.group === "none" ? null : <Shares answer={shown.answer} by={shown.view.group} keys={shown.keys} />}
          </>
        )}
      </Loaded>
    </>
  );
}

function CsvButton({ view }: { view: View }) {
  const action = useAction();
  const download = () => action.run(async () => {
    const { question } = questionOf(view, Date.now());
    const text = await usage.csv(question);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `usage-${question.from.slice(0, 10)}-by-${question.bucket}.csv`;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    announce("The CSV file is being saved");
  });
  return (
    <>
      <Button icon="download" busy={action.busy.value} onClick={() => void download()}>CSV</Button>
      {action.failure.value === undefined ? null : <FailureNotice what="The CSV file could not be had." failure={action.failure.value} />}
    </>
  );
}

function Totals({ answer }: { answer: Answer }) {
  const { totals } = answer;
  return (
    <dl class="figures card">
      <Figure label="Credits" value={grouped(totals.credits)} />
      <Figure label="Generations" value={grouped(totals.generations)} note={`${grouped(totals.failed)} failed, ${grouped(totals.canceled)} canceled`} />
      <Figure label="Audio" value={duration(totals.audio_seconds)} />
    </dl>
  );
}

const headings: Record<Measure, string> = {
  generations: "Generations", succeeded: "Succeeded", failed: "Failed", canceled: "Canceled", audio_seconds: "Seconds", credits: "Credits",
};

function Shares({ answer, by, keys: known }: { answer: Answer; by: "key" | "voice"; keys: readonly ApiKey[] }) {
  const rows = shares(answer.data, by === "key" ? "key_id" : "voice");
  const label = by === "key" ? "By key" : "By voice";
  if (rows.length === 0) {
    return <Card title={label}><Empty icon="usage" title="Nothing in this time">Choose a longer span.</Empty></Card>;
  }
  return (
    <Card title={label}>
      <TableFrame label={`${label}, table`}>
        <table>
          <caption class="visually-hidden">{label}</caption>
          <thead>
            <tr>
              <th scope="col">{by === "key" ? "Key" : "Voice"}</th>
              {measures.map((measure) => <th key={measure} scope="col" class="number">{headings[measure]}</th>)}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.group ?? ""}>
                <th scope="row">{by === "key" ? keyName(row.group, known) : row.group ?? "None named"}</th>
                {measures.map((measure) => <td key={measure} class="number">{grouped(row.totals[measure])}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </Card>
  );
}

function keyName(id: string | null, known: readonly ApiKey[]) {
  if (id === null) {
    return "Console, or keys deleted since";
  }
  return known.find((key) => key.id === id)?.name ?? <>deleted key <code class="id">{id}</code></>;
}
