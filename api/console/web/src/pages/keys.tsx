import { useSignal } from "@preact/signals";
import { account, keys } from "../api/calls";
import type { ApiKey } from "../api/types";
import { Badge, Button, Empty, IconButton, PageHead, Time } from "../components/basics";
import { CreateKey } from "../components/create_key";
import { DeleteKey, LimitKey, RenameKey } from "../components/change_key";
import { RotateKey } from "../components/rotate_key";
import { Loaded, Notice } from "../components/states";
import { integer } from "../lib/exact_json";
import { pathOf } from "../lib/path";
import { isUsedUp, share, spentText } from "../lib/spend";
import { absolute, aDay, remaining, within } from "../lib/time";
import { useClock } from "../state/clock";
import { useLoader } from "../state/loader";

type Change = "rename" | "rotate" | "limit" | "delete";
type Open = { name: "create" } | { name: Change; key: ApiKey } | undefined;

export function Keys() {
  const list = useLoader((signal) => keys.list(signal));
  const owner = useLoader((signal) => account.show(signal));
  const open = useSignal<Open>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const done = () => {
    close();
    void list.reload();
  };
  const create = <Button look="primary" icon="plus" onClick={() => { open.value = { name: "create" }; }}>New key</Button>;
  return (
    <>
      <PageHead title="API keys" lead="For programs. A key is shown once, when it is made.">{create}</PageHead>
      {owner.data.value?.api_access === false ? (
        <Notice look="warn">
          <p>Keys of this account cannot create generations yet: that takes a paid plan or a purchase. The playground works with any credits. <a href={pathOf({ name: "billing" })}>Billing</a></p>
        </Notice>
      ) : null}
      <Loaded loader={list} what="The keys" lines={5}>
        {(shown) => shown.data.length === 0
          ? (
            <Empty icon="keys" title="No keys yet" action={<a class="button plain" href={pathOf({ name: "start" })}>From a key to a sound</a>}>
              A key lets a program generate audio on this account.
            </Empty>
          )
          : (
            <>
              <ul class="rows card">
                {shown.data.map((key) => <KeyRow key={key.id} shown={key} onOpen={(name) => { open.value = { name, key }; }} />)}
              </ul>
              {owner.data.value === undefined ? null
                : <p class="hint">{shown.data.length} of {integer(owner.data.value.limits.keys)} keys.</p>}
            </>
          )}
      </Loaded>
      {open.value?.name === "create" ? <CreateKey onClose={close} onDone={done} /> : null}
      {open.value?.name === "rename" ? <RenameKey shown={open.value.key} onClose={close} onDone={done} /> : null}
      {open.value?.name === "rotate" ? <RotateKey shown={open.value.key} onClose={done} /> : null}
      {open.value?.name === "limit" ? <LimitKey shown={open.value.key} onClose={close} onDone={done} /> : null}
      {open.value?.name === "delete" ? <DeleteKey shown={open.value.key} onClose={close} onDone={done} /> : null}
    </>
  );
}

function KeyRow({ shown, onOpen }: { shown: ApiKey; onOpen: (name: Change) => void }) {
  return (
    <li class="row key-row">
      <span class="row-main">
        <strong dir="auto">{shown.name}</strong> <code>{shown.prefix}…</code>
      </span>
      <span class="row-status">
        {shown.scopes.length === 0 ? <Badge>reads only</Badge> : shown.scopes.map((scope) => <Badge key={scope}>{scope}</Badge>)}
      </span>
      <span class="row-facts">
        <LastUse shown={shown} />
        <Expiry shown={shown} />
        <span>made <Time at={shown.created_at} /></span>
        {shown.previous_key_expires_at === null ? null : <Overlap until={shown.previous_key_expires_at} />}
        <Spending shown={shown} />
      </span>
      <span class="row-actions">
        <IconButton icon="pen" label={`Rename ${shown.name}`} onClick={() => onOpen("rename")} />
        <IconButton icon="repeat" label={`Rotate ${shown.name}`} onClick={() => onOpen("rotate")} />
        <IconButton icon="billing" label={`Spend limit of ${shown.name}`} onClick={() => onOpen("limit")} />
        <IconButton icon="bin" label={`Delete ${shown.name}`} onClick={() => onOpen("delete")} />
      </span>
    </li>
  );
}

/** Counts down until the secret before the last rotation stops working; then it is gone. */
function Overlap({ until }: { until: string }) {
  const now = useClock(1000);
  const left = remaining(until, now.value);
  return left === undefined ? null : <Badge look="warn" icon="clock">old secret works for {left}</Badge>;
}

function Spending({ shown }: { shown: ApiKey }) {
  if (shown.spend_limit === null) {
    return <span>no spend limit</span>;
  }
  if (shown.spent_credits === null) {
    return <span>{spentText(null, shown.spend_limit)}</span>;
  }
  const text = spentText(shown.spent_credits, shown.spend_limit);
  return (
    <span class="spending">
      <meter min={0} max={1} value={share(shown.spent_credits, shown.spend_limit)} aria-label={`Spent by ${shown.name}`} aria-valuetext={text} />
      <span>{text}</span>
      {isUsedUp(shown.spent_credits, shown.spend_limit) ? <Badge look="warn" icon="warning">limit reached</Badge> : null}
    </span>
  );
}

function LastUse({ shown }: { shown: ApiKey }) {
  const now = Date.now();
  if (shown.last_used_at === null) {
    return <span>never used</span>;
  }
  const idle = !within(shown.last_used_at, 30 * aDay, now);
  return <span>used <Time at={shown.last_used_at} />{idle ? <> <Badge look="warn" icon="clock">unused 30 days</Badge></> : null}</span>;
}

function Expiry({ shown }: { shown: ApiKey }) {
  if (shown.expires_at === null) {
    return <span>never expires</span>;
  }
  return Date.parse(shown.expires_at) <= Date.now()
    ? <Badge look="bad" icon="warning">expired {absolute(shown.expires_at)}</Badge>
    : <span>expires <Time at={shown.expires_at} /></span>;
}
