import { generations } from "../api/calls";
import type { ListedGeneration, Generation } from "../api/types";
import { excerpt } from "../lib/text";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { forgetSettings } from "../state/playground";
import { Button } from "./basics";
import { Dialog } from "./dialog";
import { FailureNotice } from "./states";

export function DeleteGeneration({ generation, onClose, onDeleted }: {
  generation: Generation & Partial<Pick<ListedGeneration, "prompt">>; onClose: () => void; onDeleted: () => void;
}) {
  const action = useAction();
  const remove = () => action.run(async () => {
    await generations.remove(generation.id);
    forgetSettings(generation.id);
    announce("Deleted");
    onDeleted();
  });
  return (
    <Dialog title="Delete this generation?" onClose={onClose}>
      {typeof generation.prompt === "string" ? <blockquote dir="auto">{excerpt(generation.prompt, 200)}</blockquote> : null}
      <p>The text, the references and the audio are erased for good. That it was made and what it cost stays on the books.</p>
      {action.failure.value === undefined ? null : <FailureNotice what="It was not deleted." failure={action.failure.value} />}
      <div class="dialog-actions">
        <Button look="danger" icon="bin" busy={action.busy.value} onClick={() => void remove()}>Delete</Button>
        <Button onClick={onClose}>Keep it</Button>
      </div>
    </Dialog>
  );
}
