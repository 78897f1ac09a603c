-- Settles held messages from ARGV[first] on, as lib/settled does; then calls finish(ids, texts) with those that were
-- settled, if it is given and there are any; then takes them off their claims. Returns the verdicts.
-- needs: SETTLED, SETTLED_BEFORE, LOST, holds, let_go
-- gives: settle
local function settle(first, act, finish)
  -- needs: settled, settled_texts, verdicts, let
  if #settled > 0 and finish then
    finish(settled, settled_texts)
  end
  let_go(let)
  return verdicts
end
