-- Calls `visit`, with the row, its score and its index, for each message that an operation on a waiting part of the queue is
-- about: the ids from ARGV[first] on, or, if there are none, those of `range`: its `ids`, or those of its rows
-- (lib/rows_of_range). Skips messages that do not wait there, and those of a later form, which stay as they are. Returns
-- for how many `visit` did not return false; the score and the member of the last row that it checked, if the range
-- continues after it, otherwise empty; and how many of the ids are being processed, of `range.part` if it is given.
--   otherwise: with a rule for keys, the index in which a message may wait that was in `index` when it was chosen, since
--   another one let it in; nil: such a message is skipped
-- needs: id_of, head_of, parse_state, member_of, left_over; keys: states
-- gives: each_chosen
local function drop_rest(left)
  -- needs: drop
  drop({ left })
end

local function was_let_in(index, otherwise, member)
  -- needs: setting
  return setting('per_key') and not redis.call('ZSCORE', index, member) and redis.call('ZSCORE', otherwise, member)
end

local function each_chosen(index, first, visit, range, otherwise)
  local ids, rows, seen, count, leased = {}, {}, {}, 0, 0
  local next_score, next_member = '', ''
  if #ARGV >= first then
    for i = first, #ARGV do
      ids[#ids + 1] = ARGV[i]
    end
  elseif range and range.ids then
    ids = range.ids
  elseif range then
    -- needs: rows_of_range
    rows, next_score, next_member = rows_of_range(index, range)
    for n, row in ipairs(rows) do
      ids[n] = id_of(row)
    end
  end
  for n, id in ipairs(ids) do
    local text = redis.call('HGET', states, id)
    local head, later = head_of(id, text)
    if not later then
      local state = head and parse_state(text, head.birth)
      local member = rows[n] or state and member_of(id, head, state.due)
      local at = otherwise and state and was_let_in(index, otherwise, member) and otherwise or index
      local waits = state and not left_over(at, member, id, state, head)
      local score = waits and not seen[id] and redis.call('ZSCORE', at, member)
      if score then
        seen[id] = true
        if visit(id, state, head, member, tonumber(score), at) ~= false then
          count = count + 1
        end
      elseif rows[n] then -- left behind by a script that was cut off
        if not head then
          drop_rest(id)
        end
        redis.call('ZREM', index, member)
      elseif state and state.mark == '+' and (not range or not range.part or range.part == state.part) then
        leased = leased + 1
      end
    end
  end
  return count, next_score, next_member, leased
end
