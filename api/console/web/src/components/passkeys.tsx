// The passkeys of an account: who has one signs in by a finger, a face or a PIN, and nothing can be
// read off or typed into another site.
import { useSignal } from "@preact/signals";
import { passkeys } from "../api/calls";
import type { Passkey } from "../api/types";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { useLoader } from "../state/loader";
import { makeOne, NotUsed, possible } from "../state/passkeys";
import { afterFreshSignIn, withFreshSignIn } from "../state/session";
import { Badge, Button, Card, IconButton, Time } from "./basics";
import { Dialog } from "./dialog";
import { RenameDialog } from "./rename";
import { FailureNotice, Loaded, Notice } from "./states";

export function Passkeys() {
  return possible ? <OwnPasskeys /> : (
    <Card title="Passkeys">
      <p>There are none at this address: browsers have passkeys where the console has a name and is reached by https, or as localhost.</p>
    </Card>
  );
}

type Open = { name: "rename" | "remove"; passkey: Passkey } | undefined;

function OwnPasskeys() {
  const list = useLoader((signal) => passkeys.list(signal));
  const action = useAction();
  const notMade = useSignal<string | undefined>(undefined);
  const open = useSignal<Open>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const done = () => {
    close();
    void list.reload();
  };
  const add = () => action.run(async () => {
    notMade.value = undefined;
    try {
      if ((await withFreshSignIn(makeOne)) !== undefined) {
        announce("The passkey was added");
        await list.reload();
      }
    } catch (thrown) {
      if (!(thrown instanceof NotUsed)) {
        throw thrown;
      }
      notMade.value = thrown.message;
    }
  });
  const failure = action.failure.value;
  return (
    <Card title="Passkeys" actions={<Button icon="plus" busy={action.busy.value} onClick={() => void add()}>Add a passkey</Button>}>
      <p>Sign in with a finger, a face or a PIN instead of a password.</p>
      {failure === undefined ? null : <FailureNotice what="No passkey was added." failure={failure} />}
      {notMade.value === undefined ? null : <div role="alert"><Notice><p>{notMade.value}</p></Notice></div>}
      <Loaded loader={list} what="The passkeys" lines={2}>
        {(shown) => shown.data.length === 0 ? <p class="hint">None yet.</p> : (
          <ul class="rows">
            {shown.data.map((passkey) => <PasskeyRow key={passkey.id} passkey={passkey} onOpen={(name) => { open.value = { name, passkey }; }} />)}
          </ul>
        )}
      </Loaded>
      {open.value?.name === "rename" ? <Rename passkey={open.value.passkey} onClose={close} onDone={done} /> : null}
      {open.value?.name === "remove" ? <Remove passkey={open.value.passkey} onClose={close} onDone={done} /> : null}
    </Card>
  );
}

function PasskeyRow({ passkey, onOpen }: { passkey: Passkey; onOpen: (name: "rename" | "remove") => void }) {
  return (
    <li class="row">
      <span class="row-main">{passkey.name}</span>
      <span class="row-status">{passkey.synced ? <Badge>synced</Badge> : <Badge>this device alone</Badge>}</span>
      <span class="row-facts">
        <span>added <Time at={passkey.created_at} /></span>
        {passkey.last_used_at === null ? <span>never used</span> : <span>used <Time at={passkey.last_used_at} /></span>}
      </span>
      <span class="row-actions">
        <IconButton icon="pen" label={`Rename ${passkey.name}`} onClick={() => onOpen("rename")} />
        <IconButton icon="bin" label={`Remove ${passkey.name}`} onClick={() => onOpen("remove")} />
      </span>
    </li>
  );
}

interface Props { passkey: Passkey; onClose: () => void; onDone: () => void }

function Rename({ passkey, onClose, onDone }: Props) {
  return <RenameDialog what="passkey" before={passkey.name} rename={(name) => passkeys.rename(passkey.id, name)} onClose={onClose} onDone={onDone} />;
}

function Remove({ passkey, onClose, onDone }: Props) {
  const action = useAction();
  const remove = () => action.run(async () => {
    if (await afterFreshSignIn(() => passkeys.remove(passkey.id))) {
      announce("The passkey was removed");
      onDone();
    }
  });
  return (
    <Dialog title={`Remove “${passkey.name}”?`} onClose={onClose}>
      <p>Nobody signs in with it any more. Sessions that it opened go on: end them under Sessions. The device may keep showing it until it is deleted there, too.</p>
      {action.failure.value === undefined ? null : <FailureNotice what="It was not removed." failure={action.failure.value} />}
      <div class="dialog-actions">
        <Button look="danger" icon="bin" busy={action.busy.value} onClick={() => void remove()}>Remove the passkey</Button>
        <Button onClick={onClose}>Keep it</Button>
      </div>
    </Dialog>
  );
}
