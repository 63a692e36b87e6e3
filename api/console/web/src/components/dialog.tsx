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
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) {
        before.focus();
      }
    };
  }, []);
  return (
    <dialog
      ref={element} aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
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
