import { account, catalogue } from "../api/calls";
import type { LedgerEntry, List, Pricing } from "../api/types";
import { Button, Card, CopyButton, Empty, Figure, PageHead, TableFrame } from "../components/basics";
import { Icon } from "../components/icons";
import { Loaded } from "../components/states";
import { grouped, signed } from "../lib/decimal";
import { pathOf } from "../lib/path";
import { absolute } from "../lib/time";
import { useLoader } from "../state/loader";
import { changeSearch, search } from "../state/router";

export function Billing() {
  const cursor = search.value.get("cursor") ?? undefined;
  const owner = useLoader((signal) => account.show(signal));
  const prices = useLoader((signal) => catalogue.pricing(signal));
  const ledger = useLoader((signal) => account.ledger(cursor, signal), [cursor]);
  return (
    <>
      <PageHead title="Billing" />
      <Card title="Balance">
        <Loaded loader={owner} what="The balance" lines={2} room="balance">
          {(shown) => (
            <>
              <dl class="figures">
                <Figure label="Available" value={grouped(shown.credits.available)} unit="credits" />
                <Figure label="Reserved" value={grouped(shown.credits.reserved)} unit="credits" />
                <Figure label="Plan" value={shown.plan === "paid" ? "Paid" : "Free"} />
              </dl>
              <div class="ask-operator">
                <p><strong>More credits?</strong> Ask your operator for credits for <code>{shown.email}</code>.</p>
                <CopyButton text={shown.email} label="Copy the address" />
              </div>
            </>
          )}
        </Loaded>
      </Card>
      <Card title="Prices"><Loaded loader={prices} what="The prices" lines={2} room="text">{(shown) => <Prices shown={shown} />}</Loaded></Card>
      <Card title="Ledger">
        <Loaded loader={ledger} what="The ledger" lines={8}>{(list) => <Ledger list={list} paged={cursor !== undefined} />}</Loaded>
      </Card>
    </>
  );
}

function Prices({ shown }: { shown: Pricing }) {
  return (
    <p>
      {grouped(shown.credits_per_minute)} credits a minute of the audio that is delivered, at least {grouped(shown.min_credits)} and at
      most {grouped(shown.max_credits)} for one. {grouped(shown.reserved_credits)} are reserved when it is created; what it does not use returns
      when it has succeeded, everything when it fails or is canceled.
    </p>
  );
}

const kinds: Record<LedgerEntry["kind"], string> = {
  reservation: "Reserved", settlement: "Settled", grant: "Credits added", clawback: "Credits taken back",
};

function Ledger({ list, paged }: { list: List<LedgerEntry>; paged: boolean }) {
  if (list.data.length === 0 && !paged) {
    return <Empty icon="billing" title="No movements yet">Every credit that comes, is held, charged or returned is a line here, with the balance after it.</Empty>;
  }
  return (
    <>
      <TableFrame label="Lines of the ledger">
        <table>
          <caption class="visually-hidden">Every movement of credits, newest first, with the balance after it</caption>
          <thead>
            <tr>
              <th scope="col">When</th><th scope="col">What</th><th scope="col" class="number">Charged</th>
              <th scope="col" class="number">Available</th><th scope="col" class="number">Reserved</th>
              <th scope="col" class="number">Available after</th>
            </tr>
          </thead>
          <tbody>{list.data.map((entry) => <LedgerRow key={entry.seq} entry={entry} />)}</tbody>
        </table>
      </TableFrame>
      <nav class="pager" aria-label="Pages of the ledger">
        {paged ? <Button onClick={() => changeSearch({ cursor: undefined })}>Newest</Button> : null}
        {list.has_more && list.next_cursor !== null
          ? <Button onClick={() => changeSearch({ cursor: list.next_cursor ?? undefined })}>Older <Icon name="arrow" /></Button> : null}
      </nav>
    </>
  );
}

function LedgerRow({ entry }: { entry: LedgerEntry }) {
  return (
    <tr>
      <td class="when">{absolute(entry.created_at)}</td>
      <th scope="row">
        {entry.generation_id === null ? kinds[entry.kind]
          : <a href={pathOf({ name: "generation", id: entry.generation_id })}>{kinds[entry.kind]}</a>}
        {entry.grant === null ? null : <span class="muted"> {entry.grant.kind}, {entry.grant.reference}</span>}
      </th>
      <td class="number">{grouped(entry.charged_credits)}</td>
      <td class="number">{signed(entry.available_change)}</td>
      <td class="number">{signed(entry.reserved_change)}</td>
      <td class="number">{grouped(entry.balance_after.available)}</td>
    </tr>
  );
}
