-- The items (id, token) whose token holds: verdicts, their ids, and how many for each token.
local ids = {}
for i = 1, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end

local function fenced(texts)
  local verdicts, held, count, done = {}, {}, {}, {}
  for n, id in ipairs(ids) do
    local token = ARGV[2 * n]
    verdicts[n] = 0
    if not done[id] and holds(token, texts[n]) then
      verdicts[n], done[id] = 1, true
      held[#held + 1] = id
      count[token] = (count[token] or 0) + 1
    end
  end
  return verdicts, held, count
end
