// Who else signs this account in: an organization, say, by OpenID Connect.
import { useSignal } from "@preact/signals";
import { issuers } from "../api/calls";
import { isCode } from "../api/failure";
import type { LinkedIssuer, SignInWays } from "../api/types";
import { issuerHost } from "../lib/text";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { useLoader } from "../state/loader";
import { afterFreshSignIn, confirmIdentity, current } from "../state/session";
import { goToIssuer, ways } from "../state/ways";
import { Button, Card, IconButton, Time } from "./basics";
import { Dialog } from "./dialog";
import { FailureNotice, Loaded } from "./states";

function nameOf({ issuer }: LinkedIssuer): string {
  return issuer === null ? "An issuer without a name" : issuerHost(issuer);
}

function none(offered: SignInWays | undefined): string {
  return offered === undefined ? "None yet."
    : offered.oidc ? "None. Link your organization, and it signs you in here."
    : "None. This service signs nobody in by an issuer.";
}

export function Issuers() {
  const list = useLoader((signal) => issuers.list(signal));
  const removing = useSignal<LinkedIssuer | undefined>(undefined);
  const close = () => {
    removing.value = undefined;
  };
  const removed = () => {
    close();
    void list.reload();
  };
  return (
    <Card title="Linked issuers">
      <p>Your organization, for example: who signs in there is signed in here.</p>
      <Loaded loader={list} what="The linked issuers" lines={2}>
        {(shown) => shown.data.length === 0
          ? <><p class="hint">{none(ways.value)}</p>{ways.value?.oidc === true ? <Link /> : null}</>
          : <ul class="rows">{shown.data.map((linked) => <IssuerRow key={linked.id} linked={linked} onRemove={() => { removing.value = linked; }} />)}</ul>}
      </Loaded>
      {removing.value === undefined ? null : <Unlink linked={removing.value} onClose={close} onRemoved={removed} />}
    </Card>
  );
}

/** The service links whom the issuer names to whoever has signed in within the last ten minutes. */
function Link() {
  const action = useAction();
  const link = () => action.run(async () => {
    const own = current.peek();
    if (own !== undefined && Date.parse(own.fresh_until) <= Date.now() && !(await confirmIdentity())) {
      return;
    }
    await goToIssuer("sign_in");
  });
  const failure = action.failure.value;
  return (
    <>
      {failure === undefined ? null : <FailureNotice what="Your organization could not be asked." failure={failure} />}
      <div><Button busy={action.busy.value} onClick={() => void link()}>Link your organization</Button></div>
    </>
  );
}

function IssuerRow({ linked, onRemove }: { linked: LinkedIssuer; onRemove: () => void }) {
  const { issuer, email } = linked;
  return (
    <li class="row">
      <span class="row-main">{nameOf(linked)}</span>
      <span class="row-facts">
        {email === null ? null : <span>{email}</span>}
        {/* Two issuers of one host differ in the rest of their addresses. */}
        {issuer === null || `https://${nameOf(linked)}` === issuer.replace(/\/$/, "") ? null : <code>{issuer}</code>}
        {issuer === null ? <span>linked before names were kept; its next sign-in tells it</span> : null}
        <span>linked <Time at={linked.linked_at} /></span>
        {linked.last_used_at === null ? null : <span>used <Time at={linked.last_used_at} /></span>}
      </span>
      <span class="row-actions"><IconButton icon="bin" label={`Unlink ${nameOf(linked)}`} onClick={onRemove} /></span>
    </li>
  );
}

function Unlink({ linked, onClose, onRemoved }: { linked: LinkedIssuer; onClose: () => void; onRemoved: () => void }) {
  const action = useAction();
  const remove = () => action.run(async () => {
    if (await afterFreshSignIn(() => issuers.remove(linked.id))) {
      announce("The issuer was unlinked");
      onRemoved();
    }
  });
  const failure = action.failure.value;
  return (
    <Dialog title={`Unlink ${nameOf(linked)}?`} onClose={onClose}>
      <p>It signs nobody in to this account any more. Sessions that it opened go on: end them under Sessions.</p>
      {failure === undefined ? null : (
        <FailureNotice what={isCode(failure, "last_way_in") ? "It is the only way in." : "It was not unlinked."} failure={failure} />
      )}
      <div class="dialog-actions">
        <Button look="danger" icon="bin" busy={action.busy.value} onClick={() => void remove()}>Unlink it</Button>
        <Button onClick={onClose}>Keep it</Button>
      </div>
    </Dialog>
  );
}
