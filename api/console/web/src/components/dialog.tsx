import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Announcer } from "./announcer";

/**
 * A modal dialog: the browser's own, which keeps the focus inside and gives it back. Without `onClose`
 * neither Esc nor anything but its own buttons closes it.
 */
export function Dialog({ title, onClose, children }: {
  title: string; onClose?: (() => void) | undefined; children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const wanted = useRef(true);
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      wanted.current = false;
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) {
        before.focus();
      }
    };
  }, []);
  return (
    <dialog
      ref={element} aria-labelledby={id} closedby={onClose === undefined ? "none" : undefined}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onClose={() => {
        // Whoever goes back again and again without doing anything in between has it closed, whatever onCancel says.
        if (!wanted.current) {
          return;
        }
        if (onClose !== undefined) {
          onClose();
        } else if (element.current?.open === false) {
          element.current.showModal();
        }
      }}
      onKeyDown={(event) => {
        // A second Esc would close it whatever onCancel says.
        if (event.key === "Escape") {
          event.preventDefault();
          onClose?.();
        }
      }}
    >
      <div class="dialog-body">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
      <Announcer />
    </dialog>
  );
}
