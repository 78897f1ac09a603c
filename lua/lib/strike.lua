-- Counts failures against the dependencies of messages, and opens the breaker of one that is down. While it is open, or
-- paused, a failure is not the message's fault: it is neither charged nor delayed. One message can never open it.
--   failure: from lib/judge; failure.opened: the dependency whose breaker it opened
-- needs: now, breaker, read_strikes, write_strikes, forget_strikes, read_lane, is_closed, open_breaker
-- gives: strike, note_strikes
local windows = {} -- by lane: { lines, is_new }

-- Whether the newest failures are enough to open the breaker.
local function is_down(lines)
  local failures, acks = 0, 0
  for _, line in ipairs(lines) do
    failures, acks = failures + math.max(line.charged, 1), acks + line.acks
  end
  return #lines >= breaker.distinct and failures >= breaker.share * (failures + acks)
end

-- The line of a message, moved to the end.
local function moved_up(lines, id, state)
  local line = { charged = 0, redriven = state.redriven, id = id }
  for n, other in ipairs(lines) do
    if other.id == id then
      line.charged = other.redriven == state.redriven and other.charged or 0
      if n > 1 then
        lines[n - 1].acks = lines[n - 1].acks + other.acks
      end
      table.remove(lines, n)
      break
    end
  end
  line.at, line.acks = now, 0
  lines[#lines + 1] = line
  if #lines > breaker.distinct then
    table.remove(lines, 1)
  end
  return line
end

local function strike(id, state, head, failure)
  local number = head.needs
  local name, lane = string.format('%.0f', number), read_lane(number)
  if is_closed(number) then
    failure.charge, failure.delay = false, 0
    return
  elseif breaker.distinct == math.huge or lane and lane.trusts and lane.trusts > now then
    return
  end
  local window = windows[name] or { read_strikes(name) }
  local line = moved_up(window[1], id, state)
  if is_down(window[1]) then
    failure.opened, failure.charge, failure.delay = open_breaker(number, window[1], id), false, 0
    forget_strikes(name)
    windows[name] = nil
  else
    line.charged = line.charged + (failure.charge and 1 or 0)
    windows[name] = window
  end
end

-- Writes the windows that failures were counted in.
local function note_strikes()
  for name, window in pairs(windows) do
    write_strikes(name, window[1], window[2])
  end
end
