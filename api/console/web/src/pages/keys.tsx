import { useSignal } from "@preact/signals";
import { account, keys } from "../api/calls";
import type { ApiKey } from "../api/types";
import { Badge, Button, Empty, IconButton, PageHead, Time } from "../components/basics";
import { CreateKey } from "../components/create_key";
import { DeleteKey, RenameKey } from "../components/change_key";
import { Loaded, Notice } from "../components/states";
import { integer } from "../lib/exact_json";
import { pathOf } from "../lib/path";
import { absolute, aDay, within } from "../lib/time";
import { useLoader } from "../state/loader";

type Open = { name: "create" } | { name: "rename" | "delete"; key: ApiKey } | undefined;

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
      {open.value?.name === "delete" ? <DeleteKey shown={open.value.key} onClose={close} onDone={done} /> : null}
    </>
  );
}

function KeyRow({ shown, onOpen }: { shown: ApiKey; onOpen: (name: "rename" | "delete") => void }) {
  return (
    <li class="row key-row">
      <span class="row-main">
        <strong>{shown.name}</strong> <code>{shown.prefix}…</code>
      </span>
      <span class="row-status">
        {shown.scopes.length === 0 ? <Badge>reads only</Badge> : shown.scopes.map((scope) => <Badge key={scope}>{scope}</Badge>)}
      </span>
      <span class="row-facts">
        <LastUse shown={shown} />
        <Expiry shown={shown} />
        <span>made <Time at={shown.created_at} /></span>
      </span>
      <span class="row-actions">
        <IconButton icon="pen" label={`Rename ${shown.name}`} onClick={() => onOpen("rename")} />
        <IconButton icon="bin" label={`Delete ${shown.name}`} onClick={() => onOpen("delete")} />
      </span>
    </li>
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
