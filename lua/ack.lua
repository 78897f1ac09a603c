-- Acks messages: they are done and go. Returns a verdict for each, or only SETTLED where all have that.
-- drains
local with_results = tonumber(ARGV[1]) -- how many of them have a result for somebody who asked for it
-- items from ARGV[2]: held (lib/settled; before them the id and the result of each that has one)
local first, act, given = 2 + 2 * with_results, nil, {}
for n = 2, first - 1, 2 do
  given[ARGV[n]] = ARGV[n + 1]
end
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
