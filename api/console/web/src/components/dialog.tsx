import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

/**
 * A modal dialog: the browser's own, which keeps the focus inside and gives it back. Without `onClose`
 * neither Esc nor anything but its own buttons closes it.
 */
export function Dialog({ title, onClose, children, wide = false }: {
  title: string; onClose?: (() => void) | undefined; children: ComponentChildren; wide?: boolean;
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
      ref={element} aria-labelledby={id} class={wide ? "wide" : ""}
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
    </dialog>
  );
}
