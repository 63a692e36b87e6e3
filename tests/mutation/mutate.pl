#!/usr/bin/perl
# mutate.pl MUTANTS TREE [check]: see README.md. With `check` only whether each can be applied.
use strict;
use warnings;

my ($table, $tree, $mode, @names) = @ARGV;
my $check = ($mode // '') eq 'check';
my $build = "$tree/.local/build-test";
# Virtual hosts of the broker for tests of the whole service.
my $spec = $ENV{RESOURCES} ? "--resource-spec-file $ENV{RESOURCES}" : '';

sub slurp {
  my ($path) = @_;
  open my $in, '<', $path or die "$path: $!\n";
  local $/;
  return scalar <$in>;
}

sub spit {
  my ($path, $text) = @_;
  open my $out, '>', $path or die "$path: $!\n";
  print $out $text;
  close $out or die "$path: $!\n";
}

my @mutants;
for my $block (split /\n\n+/, slurp($table) =~ s/^#.*\n//gmr) {
  my %one = (from => '', to => '', tests => []);
  for (split /\n/, $block) {
    /^= ([\w-]+): (.+)/ ? (@one{qw(name what)} = ($1, $2))
      : /^@ (\S+)/ ? ($one{file} = $1)
      : /^-(.*)/ ? ($one{from} .= "$1\n")
      : /^\+(.*)/ ? ($one{to} .= "$1\n")
      : /^! (\S+)/ ? push(@{$one{tests}}, $1)
      : /\S/ ? die "not understood: $_\n" : next;
  }
  next unless %one && $one{name};
  die "$one{name} is not complete\n" unless $one{file} && $one{from} && @{$one{tests}};
  push @mutants, \%one;
}

my ($bad, %sound, @broken) = (0);
my ($log, $broken_mark) = ("$tree/.local/mutant.log", "$tree/.local/mutant");
$| = 1;

# The test programs and the service's own.
sub built {
  my @programs = (grep { /^(e2e|fault)_/ } @_) ? qw(audio-api audio-worker audio-speech audio-decode audio-onnx) : ();
  return system("ninja -C $build @_ @programs >$log 2>&1") == 0;
}

# The first failed test of a program; undefined: none.
sub failed {
  my ($test) = @_;
  my $out = `ctest --test-dir $build -R '^$test\\.' --stop-on-failure -j 2 --no-tests=error $spec 2>&1`;
  return undef if $? == 0;
  spit($log, $out);
  my ($name) = $out =~ /^\s+\d+ - (\S+).* \([^()]+\)\s*$/m;
  die "ctest does not say what failed; see $log\n" unless defined $name;
  return $name;
}

# Puts back what is broken, now, so that it is built again.
sub mend {
  return unless @broken;
  spit(@broken);
  @broken = ();
  unlink $broken_mark;
}
END { mend() }
$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);
if (-e $broken_mark) {  # What a run left that was killed: its source is as it was, not what was built of it.
  my $left = "$tree/" . slurp($broken_mark);
  utime undef, undef, $left;
  unlink $broken_mark;
}
for my $one (@mutants) {
  next if @names && !grep { $_ eq $one->{name} } @names;
  my $path = "$tree/$one->{file}";
  my $text = slurp($path);
  my $there = () = $text =~ /\Q$one->{from}\E/g;
  if ($there != 1) {
    print "$one->{name}: what it breaks is there $there times in $one->{file}\n";
    ++$bad;
    next;
  }
  next if $check;
  # Unbroken, once: else nobody knows what a failure means.
  for my $test (@{$one->{tests}}) {
    $sound{$test} //= built($test) && !defined failed($test);
    die "$test fails without any break; see $log\n" unless $sound{$test};
  }
  (my $broken = $text) =~ s/\Q$one->{from}\E/$one->{to}/;
  @broken = ($path, $text);
  spit($broken_mark, $one->{file});
  spit($path, $broken);
  my $by = '';
  if (!built(@{$one->{tests}})) {
    $by = 'does not build';
    ++$bad;
  } else {
    for my $test (@{$one->{tests}}) {
      last if $by = failed($test) // '';
    }
  }
  mend();
  ++$bad if $by eq '';
  print "| $one->{name} | $one->{what} | ", ($by eq '' ? '**survived**' : $by), " |\n";
}
exit($bad == 0 ? 0 : 1);
