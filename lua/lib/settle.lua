-- Settles what is held from ARGV[first] as lib/settled does; then finish(ids, texts) of what was settled, if there is one
-- and something was; then lets their leases go. Returns the verdicts.
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
