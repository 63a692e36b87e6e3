// Form fields: a label, a hint, a message of what is wrong, tied together for every kind of reader.
import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";

interface Described { id: string; "aria-describedby"?: string; "aria-invalid"?: "true" }

export function Field({ label, hint, problem, optional = false, children }: {
  label: string;
  hint?: ComponentChildren;
  problem?: string | undefined;
  optional?: boolean;
  children: (described: Described) => ComponentChildren;
}) {
  const id = useId();
  const hintId = hint === undefined ? undefined : `${id}-hint`;
  const problemId = problem === undefined ? undefined : `${id}-problem`;
  const ids = [problemId, hintId].filter((part) => part !== undefined).join(" ");
  return (
    <div class="field">
      <label for={id}>
        {label}
        {optional ? <span class="optional"> optional</span> : null}
      </label>
      {children({
        id,
        ...(ids === "" ? {} : { "aria-describedby": ids }),
        ...(problem === undefined ? {} : { "aria-invalid": "true" as const }),
      })}
      {problem === undefined ? null : <p class="problem" id={problemId}>{problem}</p>}
      {hint === undefined ? null : <p class="hint" id={hintId}>{hint}</p>}
    </div>
  );
}

type InputProps = Omit<JSX.HTMLAttributes<HTMLInputElement>, "onInput" | "label" | "value"> & {
  label: string;
  value: string;
  onValue: (value: string) => void;
  hint?: ComponentChildren;
  problem?: string | undefined;
  optional?: boolean;
  type?: string;
  autoComplete?: string;
  maxLength?: number;
  required?: boolean;
  placeholder?: string;
  inputMode?: "text" | "decimal" | "url" | "email";
  min?: string;
  max?: string;
};

export function TextField({ label, value, onValue, hint, problem, optional, ...rest }: InputProps) {
  return (
    <Field label={label} hint={hint} problem={problem} optional={optional ?? false}>
      {(described) => (
        <input {...rest} {...described} value={value} onInput={(event) => onValue(event.currentTarget.value)} />
      )}
    </Field>
  );
}

/** `first`: where the key for filters leads. */
export function SelectField<T extends string>({ label, value, options, onValue, hint, first = false }: {
  label: string; value: T; options: readonly (readonly [T, string])[]; onValue: (value: T) => void;
  hint?: ComponentChildren; first?: boolean;
}) {
  return (
    <Field label={label} hint={hint}>
      {(described) => (
        <select {...described} data-first-filter={first ? "" : undefined} value={value} onChange={(event) => onValue(event.currentTarget.value as T)}>
          {options.map(([option, text]) => <option key={option} value={option}>{text}</option>)}
        </select>
      )}
    </Field>
  );
}

export function CheckField({ label, hint, checked, onChange }: {
  label: string; hint?: string; checked: boolean; onChange: (checked: boolean) => void;
}) {
  const id = useId();
  return (
    <div class="check">
      <input
        type="checkbox" id={id} checked={checked}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <div>
        <label for={id}>{label}</label>
        {hint === undefined ? null : <p class="hint" id={`${id}-hint`}>{hint}</p>}
      </div>
    </div>
  );
}

/** A slider for the hand and a number for whoever knows which. */
export function RangeField({ label, value, onValue, min, max, step, unit, problem }: {
  label: string; value: string; onValue: (value: string) => void;
  min: number; max: number; step: number; unit: string; problem?: string | undefined;
}) {
  return (
    <Field label={label} problem={problem}>
      {(described) => (
        <div class="range">
          <input
            type="range" aria-label={`${label}, slider`} min={min} max={max} step={step}
            value={value} aria-valuetext={`${value}${unit}`} onInput={(event) => onValue(event.currentTarget.value)}
          />
          <input
            {...described} type="number" inputMode="decimal" min={min} max={max} step="any"
            value={value} onInput={(event) => onValue(event.currentTarget.value)}
          />
        </div>
      )}
    </Field>
  );
}
