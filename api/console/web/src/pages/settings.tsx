import { useSignal } from "@preact/signals";
import { session } from "../api/calls";
import { isCode } from "../api/failure";
import type { ListedSession } from "../api/types";
import { Badge, Button, Card, Choice, PageHead, Time } from "../components/basics";
import { DeleteAccount } from "../components/delete_account";
import { CheckField, TextField } from "../components/fields";
import { Issuers } from "../components/issuers";
import { Passkeys } from "../components/passkeys";
import { MailChange } from "../components/mail_change";
import { FailureNotice, Loaded, Notice } from "../components/states";
import { pathOf } from "../lib/path";
import { codePoints, deviceName } from "../lib/text";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { useLoader } from "../state/loader";
import { afterFreshSignIn, current, refreshSession, signOut } from "../state/session";
import { enabled, enableShortcuts } from "../state/shortcuts";
import { chooseTheme, theme } from "../state/theme";

export function Settings() {
  return (
    <>
      <PageHead title="Settings" />
      <Card title="Appearance">
        <Choice label="Theme" value={theme.value} options={[["system", "System"], ["light", "Light"], ["dark", "Dark"]]} onChange={chooseTheme} />
      </Card>
      <Card title="Keyboard">
        <CheckField label="Single-key shortcuts" hint="Press ? to see them." checked={enabled.value} onChange={enableShortcuts} />
        <p><a href={pathOf({ name: "start" })}>First run: from a key to a sound</a></p>
      </Card>
      <Password />
      <Passkeys />
      <Issuers />
      <MailChange />
      <Sessions />
      <DeleteAccount />
    </>
  );
}

const shortest = 12;

function Password() {
  const own = current.value;
  const before = useSignal("");
  const wanted = useSignal("");
  const problem = useSignal<string | undefined>(undefined);
  const saved = useSignal(false);
  const action = useAction();
  const hasOne = own?.has_password === true;
  const set = () => session.setPassword({
    password: wanted.value, ...(before.value === "" ? {} : { current_password: before.value }),
  });
  const save = () => action.run(async () => {
    saved.value = false;
    problem.value = codePoints(wanted.value) < shortest ? `At least ${shortest} characters.` : undefined;
    if (problem.value !== undefined) {
      return;
    }
    // Whoever has one already shows it instead of signing in again.
    if (hasOne) {
      await set();
    } else if (!(await afterFreshSignIn(set))) {
      return;
    }
    before.value = "";
    wanted.value = "";
    saved.value = true;
    announce("The password was saved");
    await refreshSession();
  });
  const failure = action.failure.value;
  const ruled = (param: string) => (failure?.kind === "refused" && failure.param === param ? failure.message : undefined);
  const wrongBefore = ruled("current_password");
  const wrongWanted = problem.value ?? ruled("password");
  return (
    <Card title="Sign-in">
      <p>You are signed in as <strong>{own?.email}</strong>.</p>
      <form class="stack narrow" noValidate onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <input type="email" class="visually-hidden" autoComplete="username" value={own?.email ?? ""} readOnly tabIndex={-1} aria-hidden="true" />
        {hasOne ? (
          <TextField
            label="Current password" type="password" autoComplete="current-password" value={before.value}
            problem={wrongBefore} onValue={(value) => { before.value = value; }}
          />
        ) : null}
        <TextField
          label={hasOne ? "New password" : "Password"} type="password" autoComplete="new-password" value={wanted.value}
          hint={`At least ${shortest} characters; a few words are better than one. Every other session ends.`}
          problem={wrongWanted} onValue={(value) => { wanted.value = value; }}
        />
        {failure === undefined || wrongBefore !== undefined || wrongWanted !== undefined ? null : (
          <FailureNotice what={isCode(failure, "step_up_required") ? "The current password is needed." : "The password was not saved."} failure={failure} />
        )}
        {saved.value ? <Notice look="good"><p>Saved. Other sessions have ended.</p></Notice> : null}
        <div><Button type="submit" busy={action.busy.value}>{hasOne ? "Change the password" : "Set a password"}</Button></div>
      </form>
    </Card>
  );
}

function Sessions() {
  const loader = useLoader((signal) => session.list(signal));
  const action = useAction();
  const end = (id: string) => action.run(async () => {
    await session.end(id);
    announce("The session was ended");
    await loader.reload();
  });
  return (
    <Card title="Sessions" actions={<Button onClick={() => void action.run(signOut)}>Sign out</Button>}>
      {action.failure.value === undefined ? null : <FailureNotice what="That did not work." failure={action.failure.value} />}
      <Loaded loader={loader} what="The sessions" lines={3}>
        {(list) => <ul class="rows">{list.data.map((item) => <SessionRow key={item.id} item={item} onEnd={() => void end(item.id)} />)}</ul>}
      </Loaded>
    </Card>
  );
}

function SessionRow({ item, onEnd }: { item: ListedSession; onEnd: () => void }) {
  const name = deviceName(item.user_agent);
  return (
    <li class="row">
      <span class="row-main">{name}</span>
      <span class="row-status">{item.current ? <Badge look="good" icon="check">this one</Badge> : null}</span>
      <span class="row-facts">
        <span>{item.address}</span>
        <span>seen <Time at={item.last_seen_at} /></span>
        <span>ends <Time at={item.expires_at} /></span>
      </span>
      {item.current ? null : <span class="row-actions"><Button onClick={onEnd} aria-label={`Revoke ${name}`}>Revoke</Button></span>}
    </li>
  );
}
