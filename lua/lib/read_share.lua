-- Reads the acks and sends of one queue, from ARGV[at] on (`commit.lua`), into q: `opened`, whether the queue is the one
-- that the client opened; `ids` to ack, `texts`, their states, and `results` by id; `held`, token → how many of these it
-- holds; `lost`, the ids that are not held; `groups` of messages; `member` and `length` of the staged list. Returns where
-- the next queue begins.
-- needs: holds
-- gives: read_share
local function read_share(q, at)
  local function read()
    at = at + 1
    return tonumber(ARGV[at - 1])
  end
  local seen = {}
  q.ids, q.texts, q.results, q.held, q.lost, q.groups = {}, {}, {}, {}, {}, {}
  q.opened, at = ARGV[at] == '' or ARGV[at] == q.opening, at + 1
  for _ = 1, read() do
    local id, token, result = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    at = at + 3
    local text = redis.call('HGET', q.states, id)
    local held = holds(token, text)
    if held and not seen[id] then -- an item may be given twice
      q.ids[#q.ids + 1], q.texts[#q.ids + 1], q.results[id] = id, text, result
      q.held[token], seen[id] = (q.held[token] or 0) + 1, true
    elseif not held then
      q.lost[#q.lost + 1] = id
    end
  end
  for g = 1, read() do
    q.groups[g] = { delay = read(), ttl = read(), size = read(), first = at }
    at = at + 2 * q.groups[g].size
  end
  q.member, at = ARGV[at], at + 1
  q.length = read()
  return at
end
