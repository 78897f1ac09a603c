-- Acks messages: they are done and go. Returns a verdict for each, or only SETTLED where all have that.
-- drains
-- items from ARGV[1]: held (lib/settled)
local first, act = 1, nil
-- needs: settled, settled_texts, verdicts, let, SETTLED
if #settled > 0 then
  local ids, texts = settled, settled_texts
  -- needs: acked, let_go
  let_go(let)
elseif next(let) then
  -- needs: let_go
  let_go(let)
end
return #settled == #verdicts and SETTLED or verdicts
