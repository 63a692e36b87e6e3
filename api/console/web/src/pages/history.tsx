import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { generations, type HistoryFilter, keys } from "../api/calls";
import { isOpen, type List, type ListedGeneration } from "../api/types";
import { Button, Empty, IconButton, PageHead } from "../components/basics";
import { DeleteGeneration } from "../components/delete_generation";
import { SelectField, TextField } from "../components/fields";
import { GenerationRow } from "../components/generation_list";
import { Icon } from "../components/icons";
import { Loaded } from "../components/states";
import { dayEnd, dayStart } from "../lib/time";
import { oneOf, pathOf } from "../lib/path";
import { excerpt, plural } from "../lib/text";
import { announce } from "../state/announce";
import { type Loader, useLoader } from "../state/loader";
import { changeSearch, navigate, search } from "../state/router";
import { useShortcuts } from "../state/shortcuts";

const statuses = ["", "processing", "queued", "succeeded", "failed", "canceled"] as const;
const statusNames: Record<(typeof statuses)[number], string> = {
  "": "Any", processing: "Processing", queued: "Waiting to try again", succeeded: "Succeeded", failed: "Failed", canceled: "Canceled",
};

/** The filter of an address; dates are days in the time zone of whoever looks, both included. */
function filterOf(parameters: URLSearchParams): HistoryFilter {
  return {
    limit: "20",
    status: oneOf(parameters.get("status"), statuses),
    created_after: dayStart(parameters.get("from")),
    created_before: dayEnd(parameters.get("to")),
    key: keyOf(parameters),
    cursor: parameters.get("cursor") ?? undefined,
  };
}

/** Anything else in the address is no key, and filters nothing. */
function keyOf(parameters: URLSearchParams): string | undefined {
  return /^key_[0-9a-z]{26}$/.exec(parameters.get("key") ?? "")?.[0];
}

export function History() {
  const parameters = search.value;
  const loader = useLoader((signal) => generations.list(filterOf(parameters), signal), [parameters.toString()]);
  return (
    <>
      <PageHead title="History"><a class="button primary" href={pathOf({ name: "playground" })}>New generation</a></PageHead>
      <Filters parameters={parameters} />
      <Loaded loader={loader} what="The history" lines={8}>
        {(list) => <Page list={list} loader={loader} filtered={["status", "key", "from", "to"].some((name) => parameters.has(name))} />}
      </Loaded>
    </>
  );
}

function Filters({ parameters }: { parameters: URLSearchParams }) {
  const known = useLoader((signal) => keys.list(signal)).data.value?.data ?? [];
  const key = keyOf(parameters) ?? "";
  // Another filter begins at its newest: a cursor belongs to the list it came from.
  const set = (name: string, value: string) => changeSearch({ [name]: value, cursor: undefined });
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <SelectField
        label="Status" value={oneOf(parameters.get("status"), statuses)} first
        options={statuses.map((status) => [status, statusNames[status]] as const)} onValue={(value) => set("status", value)}
      />
      {known.length === 0 && key === "" ? null : (
        <SelectField
          label="Key" value={key} onValue={(value) => set("key", value)}
          options={[["", "Any"], ...known.map((one) => [one.id, one.name] as const), ...(key === "" || known.some((one) => one.id === key) ? [] : [[key, "One that was deleted"] as const])]}
        />
      )}
      <TextField label="From" type="date" value={parameters.get("from") ?? ""} onValue={(value) => set("from", value)} />
      <TextField label="To" type="date" value={parameters.get("to") ?? ""} onValue={(value) => set("to", value)} />
    </form>
  );
}

function Page({ list, loader, filtered }: {
  list: List<ListedGeneration>; loader: Loader<List<ListedGeneration>>; filtered: boolean;
}) {
  const chosen = useSignal(-1);
  const deleting = useSignal<ListedGeneration | undefined>(undefined);
  const paged = search.value.has("cursor");
  const asked = search.value.toString();
  const told = useRef(asked);
  useEffect(() => {
    if (told.current !== asked) {
      announce(`${plural(list.data.length, "generation")}${list.has_more ? ", and more" : ""}`);
    }
    told.current = asked;
  }, [list]);
  useEffect(() => {
    chosen.value = -1;
  }, [list.data[0]?.id]);
  useKeysOf(list, (step) => {
    chosen.value = Math.min(Math.max(chosen.peek() + step, 0), list.data.length - 1);
    document.querySelectorAll<HTMLElement>("#main .row-main")[chosen.peek()]?.focus();
  });
  return (
    <>
      {list.data.length === 0
        ? <Nothing filtered={filtered} more={list.has_more} paged={paged} />
        : (
          <ul class="rows card">
            {list.data.map((item, index) => (
              <GenerationRow
                key={item.id} generation={item} chosen={index === chosen.value}
                actions={isOpen(item) || item.prompt === null ? null
                  : <IconButton icon="bin" label={`Delete “${excerpt(item.prompt, 40)}”`} onClick={() => { deleting.value = item; }} />}
              />
            ))}
          </ul>
        )}
      <nav class="pager" aria-label="Pages of the history">
        {paged ? <Button look="plain" onClick={() => changeSearch({ cursor: undefined })}>Newest</Button> : null}
        {list.has_more && list.next_cursor !== null
          ? <Button look="plain" onClick={() => changeSearch({ cursor: list.next_cursor ?? undefined })}>Older <Icon name="arrow" /></Button>
          : null}
      </nav>
      {deleting.value === undefined ? null : (
        <DeleteGeneration
          generation={deleting.value} onClose={() => { deleting.value = undefined; }}
          onDeleted={() => {
            deleting.value = undefined;
            void loader.reload();
          }}
        />
      )}
    </>
  );
}

function useKeysOf(list: List<ListedGeneration>, move: (step: number) => void): void {
  const shortcuts = useMemo(() => [
    { keys: "j", does: "Next in the list", act: () => move(1) },
    { keys: "k", does: "Previous in the list", act: () => move(-1) },
  ], [list]);
  useShortcuts(shortcuts);
}

function Nothing({ filtered, more, paged }: { filtered: boolean; more: boolean; paged: boolean }) {
  if (more) {
    return <Empty icon="history" title="Nothing matches so far">Older generations have not been looked at yet.</Empty>;
  }
  if (filtered || paged) {
    const clear = <Button icon="cross" onClick={() => navigate(pathOf({ name: "history" }))}>Clear the filters</Button>;
    return <Empty icon="history" title="Nothing matches" action={clear}>No generation fits these filters.</Empty>;
  }
  const go = <a class="button primary" href={pathOf({ name: "playground" })}>Open the playground</a>;
  return <Empty icon="history" title="Nothing yet" action={go}>Everything you generate, here or by API, is listed here with its price.</Empty>;
}
