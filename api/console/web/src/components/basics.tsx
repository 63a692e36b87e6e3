// The small parts that every page is made of.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import type { Status } from "../api/types";
import { type Decimal, grouped } from "../lib/decimal";
import { absolute, relative } from "../lib/time";
import { announce } from "../state/announce";
import { useClock } from "../state/clock";
import { Icon, type IconName } from "./icons";

type ButtonProps = JSX.HTMLAttributes<HTMLButtonElement> & {
  look?: "primary" | "plain" | "danger" | "quiet";
  icon?: IconName;
  busy?: boolean;
  type?: "button" | "submit";
  disabled?: boolean;
  children?: ComponentChildren;
};

/** While `busy` it stays focusable and does nothing, so that the focus is not lost. */
export function Button({ look = "plain", icon, busy = false, type = "button", onClick, children, ...rest }: ButtonProps) {
  return (
    <button
      {...rest}
      type={type}
      class={`button ${look}`}
      aria-disabled={busy ? "true" : undefined}
      onClick={(event) => {
        if (busy) {
          event.preventDefault();
        } else {
          onClick?.(event);
        }
      }}
    >
      {icon === undefined ? null : <Icon name={icon} />}
      <span>{children}</span>
    </button>
  );
}

/** A button that is only an icon, with its name for those who do not see it. */
export function IconButton({ icon, label, onClick }: { icon: IconName; label: string; onClick: () => void }) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

export function CopyButton({ text, label = "Copy", look = "plain" }: { text: string; label?: string; look?: "primary" | "plain" | "quiet" }) {
  const copied = useSignal(false);
  const timer = useRef<number>();
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      announce("The browser does not allow copying. Select the text instead.");
      return;
    }
    copied.value = true;
    announce("Copied");
    timer.current = window.setTimeout(() => {
      copied.value = false;
    }, 2000);
  };
  return (
    <Button look={look} icon={copied.value ? "check" : "copy"} onClick={() => void copy()}>
      {copied.value ? "Copied" : label}
    </Button>
  );
}

/** The title of a page takes the focus when the page is gone to, so that it is read out first. */
export function PageHead({ title, lead, children }: { title: string; lead?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Audio console`;
  }, [title]);
  return (
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {lead === undefined ? null : <p class="lead">{lead}</p>}
      </div>
      {children === undefined ? null : <div class="actions">{children}</div>}
    </header>
  );
}

export function Card({ title, actions, children, class: className = "" }: {
  title?: string; actions?: ComponentChildren; children: ComponentChildren; class?: string;
}) {
  const id = useId();
  return (
    <section class={`card ${className}`} aria-labelledby={title === undefined ? undefined : id}>
      {title === undefined ? null : (
        <div class="card-head">
          <h2 id={id}>{title}</h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  );
}

export function Figure({ label, value, unit, note }: { label: string; value: string; unit?: string; note?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        <span class="value">{value}</span>
        {unit === undefined ? null : <span class="unit"> {unit}</span>}
        {note === undefined ? null : <span class="note">{note}</span>}
      </dd>
    </div>
  );
}

export function Facts({ items }: { items: readonly (readonly [string, ComponentChildren] | undefined)[] }) {
  return (
    <dl class="facts">
      {items.map((item) => item === undefined ? null : (
        <div key={item[0]}>
          <dt>{item[0]}</dt>
          <dd>{item[1]}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Credits({ value }: { value: Decimal }) {
  return <span class="amount">{grouped(value)}</span>;
}

/** "5 min ago", with the exact time for whoever points at it. */
export function Time({ at }: { at: string }) {
  const now = useClock(30_000);
  return <time dateTime={at} title={absolute(at)}>{relative(at, now.value)}</time>;
}

const badges: Record<Status, { text: string; look: string; icon: IconName }> = {
  queued: { text: "Waiting to try again", look: "busy", icon: "clock" },
  processing: { text: "Processing", look: "busy", icon: "clock" },
  succeeded: { text: "Succeeded", look: "good", icon: "check" },
  failed: { text: "Failed", look: "bad", icon: "warning" },
  canceled: { text: "Canceled", look: "", icon: "stop" },
};

export function StatusBadge({ status }: { status: Status }) {
  const badge = badges[status];
  return <Badge look={badge.look} icon={badge.icon}>{badge.text}</Badge>;
}

export function Badge({ look = "", icon, children }: { look?: string; icon?: IconName; children: ComponentChildren }) {
  return (
    <span class={`badge ${look}`}>
      {icon === undefined ? null : <Icon name={icon} />}
      {children}
    </span>
  );
}

/** What is there when there is nothing, and what to do about it. */
export function Empty({ icon, title, children, action }: {
  icon: IconName; title: string; children?: ComponentChildren; action?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {children === undefined ? null : <p>{children}</p>}
      {action}
    </div>
  );
}

/** A wide table may scroll, the page may not; whoever has no mouse can scroll it, too. */
export function TableFrame({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="table-frame" role="region" aria-label={label} tabIndex={0}>{children}</div>;
}

/** Buttons of which one is down. */
export function Choice<T extends string>({ label, value, options, onChange }: {
  label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      <div class="segments">
        {options.map(([option, text]) => (
          <label key={option}>
            <input type="radio" name={name} checked={option === value} onChange={() => onChange(option)} />
            <span>{text}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
