-- Settles the items (id, token, …) that begin at ARGV[first], `width` values each. Calls act(id, text, i) for each
-- item whose token holds, i being the position of the item in ARGV; then finish(); then lets their leases go. Returns
-- for each item a verdict, or what act returned; LOST: it was left alone.
-- needs: SETTLED_BEFORE, LOST, holds, SETTLED, refusal, let_go; keys: states
-- gives: settle
local function settle(first, width, act, finish)
  local ids, verdicts, let, done = {}, {}, {}, {}
  for i = first, #ARGV, width do
    ids[#ids + 1] = ARGV[i]
  end
  local texts = redis.call('HMGET', states, unpack(ids))
  for n, id in ipairs(ids) do
    local i = first + (n - 1) * width
    local token = ARGV[i + 1]
    if done[id] then
      verdicts[n] = SETTLED_BEFORE
    elseif holds(token, texts[n]) then
      verdicts[n] = act(id, texts[n], i) or SETTLED
      if verdicts[n] ~= LOST then
        done[id], let[token] = true, (let[token] or 0) + 1
      end
    else
      verdicts[n] = refusal(id, token, texts[n])
    end
  end
  if next(done) and finish then
    finish()
  end
  let_go(let)
  return verdicts
end
