import "./style/main.css";
import { type ComponentChildren, render } from "preact";
import { useEffect, useErrorBoundary, useMemo } from "preact/hooks";
import type { Failure } from "./api/failure";
import { Announcer } from "./components/announcer";
import { Button, PageHead, Empty } from "./components/basics";
import { ConfirmMail } from "./components/mail_change";
import { Shell } from "./components/shell";
import { LinkPage, SignInPage, SignInSheet } from "./components/sign_in";
import { FailureNotice } from "./components/states";
import { pathOf, type Page } from "./lib/path";
import { retryDelay } from "./lib/retry";
import { Billing } from "./pages/billing";
import { Generation } from "./pages/generation";
import { History } from "./pages/history";
import { Keys } from "./pages/keys";
import { Overview } from "./pages/overview";
import { Playground } from "./pages/playground";
import { Reference } from "./pages/reference";
import { Settings } from "./pages/settings";
import { Start } from "./pages/start";
import { Usage } from "./pages/usage";
import { resume } from "./state/playground";
import { page, path, startRouter } from "./state/router";
import { current, start, state } from "./state/session";
import { startShortcuts } from "./state/shortcuts";
import { startSound } from "./state/sound";

function PageOf({ shown }: { shown: Page }) {
  switch (shown.name) {
    case "overview": return <Overview />;
    case "start": return <Start />;
    case "playground": return <Playground />;
    case "history": return <History />;
    case "generation": return <Generation id={shown.id} />;
    case "keys": return <Keys />;
    case "usage": return <Usage />;
    case "billing": return <Billing />;
    case "reference": return <Reference />;
    case "settings": return <Settings />;
    case "missing": return <Missing />;
  }
}

function Missing() {
  return (
    <>
      <PageHead title="Not found" />
      <Empty icon="info" title="There is no such page" action={<a class="button plain" href={pathOf({ name: "overview" })}>To the overview</a>} />
    </>
  );
}

/** A page that cannot be drawn says so. Else it would go on looking as it did before, for ever. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [fault] = useErrorBoundary((thrown) => reportError(thrown));
  return fault === undefined ? <>{children}</> : (
    <>
      <PageHead title="Something went wrong" />
      <div role="alert">
        <Empty icon="warning" title="This page cannot be shown" action={<Button icon="repeat" onClick={() => window.location.reload()}>Reload</Button>}>
          The fault is in the page: what you have made is safe, and the other pages work.
        </Empty>
      </div>
    </>
  );
}

/** Asks again by itself where a page would, and as soon as the connection is back. */
function Unreachable({ failure, attempt }: { failure: Failure; attempt: number }) {
  const retryAt = useMemo(() => {
    const delay = retryDelay(failure, attempt);
    return delay === undefined ? undefined : Date.now() + delay * 1000;
  }, [failure]);
  useEffect(() => {
    const again = () => void start(attempt + 1);
    const timer = retryAt === undefined ? undefined : window.setTimeout(again, retryAt - Date.now());
    window.addEventListener("online", again);
    return () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", again);
    };
  }, [failure]);
  return (
    <main class="sign-in" id="main">
      <h1 class="visually-hidden">Audio console</h1>
      <FailureNotice what="The console could not be opened." failure={failure} retryAt={retryAt} onRetry={() => void start()} />
    </main>
  );
}

function App() {
  return <><Shown /><Announcer /></>;
}

function Shown() {
  const now = state.value;
  switch (now.name) {
    case "starting": return <main id="main" aria-busy="true"><h1 class="visually-hidden">Audio console</h1></main>;
    case "unreachable": return <Unreachable failure={now.failure} attempt={now.attempt} />;
    case "link": return <LinkPage />;
    case "out": return <SignInPage />;
    case "in": return <><Shell><Guarded key={path.value}><PageOf shown={page.value} /></Guarded></Shell><ConfirmMail /><SignInSheet /></>;
  }
}

const root = document.getElementById("app");
if (root !== null) {
  startRouter();
  startShortcuts();
  startSound();
  // What a reload interrupted goes on as soon as somebody is signed in.
  const stop = current.subscribe((session) => {
    if (session !== undefined) {
      queueMicrotask(() => stop());
      resume();
    }
  });
  render(<App />, root);
  void start();
}
